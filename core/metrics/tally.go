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
