package rest

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
