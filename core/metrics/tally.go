package metrics

import "sync"

// rates keep the shares that are shown as gauges, by agent and tenant.
type rates struct {
	mu sync.Mutex // guards the field below
	of map[[2]string]rate
}

type rate struct{ attempts, successes float64 }

// after counts an attempt and returns the share of successes.
func (s *rates) after(agent, tenant string, succeeded bool) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[[2]string]rate)
	}
	key := [2]string{agent, tenant}
	r := s.of[key]
	r.attempts++
	if succeeded {
		r.successes++
	}
	s.of[key] = r
	return r.successes / r.attempts
}

// ran remembers which drivers were started.
type ran struct {
	mu    sync.Mutex // guards the field below
	names set
}

// before reports whether the driver was started before, and remembers it.
func (r *ran) before(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.names[name]; known {
		return true
	}
	if r.names == nil {
		r.names = make(set)
	}
	r.names[name] = struct{}{}
	return false
}
