package rest

import (
	"cmp"
	"slices"
	"strings"
)

// Open lists the routes that need no operator.
func (a *API) Open() []string {
	var open []string
	for pattern, r := range a.routes {
		if r.by != operators {
			open = append(open, pattern)
		}
	}
	slices.Sort(open)
	return open
}

// Routes lists all routes: the audience, the methods and the pattern of each.
func (a *API) Routes() []string {
	names := map[audience]string{operators: "operators", clients: "clients", people: "people", anybody: "anybody"}
	var all []string
	for pattern, r := range a.routes {
		all = append(all, names[r.by]+" "+cmp.Or(strings.Join(r.methods, ","), "*")+" "+pattern)
	}
	slices.Sort(all)
	return all
}

// Waiting is how many callers are in line for room or a place.
func (a *API) Waiting() int {
	return a.admission.bodies.waiting() + a.admission.slots.working.waiting()
}

// Reserved is how much room for bodies is taken, in bytes.
func (a *API) Reserved() int64 {
	a.admission.bodies.mu.Lock()
	defer a.admission.bodies.mu.Unlock()
	return a.admission.bodies.used
}

func (s *shares) waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		n += len(line)
	}
	return n
}
