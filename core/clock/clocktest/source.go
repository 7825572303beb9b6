// Package clocktest is a machine's time for tests: it passes, and the clock is
// set, when a test says so.
package clocktest

import (
	"sync"
	"time"
)

// Source implements clock.Source. Its methods may be called concurrently.
type Source struct {
	mu      sync.Mutex // guards the fields below
	wall    time.Time
	elapsed time.Duration
}

// New returns the time of a machine whose clock shows wall.
func New(wall time.Time) *Source { return &Source{wall: wall} }

// Wall implements clock.Source.
func (s *Source) Wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wall
}

// Elapsed implements clock.Source.
func (s *Source) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed
}

// Pass lets time pass, which the machine's clock shows.
func (s *Source) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall, s.elapsed = s.wall.Add(d), s.elapsed+d
}

// Jump sets the machine's clock forward, or back by a negative duration. No time
// passes.
func (s *Source) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall = s.wall.Add(d)
}
