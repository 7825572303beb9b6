package rest

import (
	"context"
	"sync"
	"time"
)

// slots are the places of calls that are worked on and of those that wait.
type slots struct {
	working *shares
	waiting chan struct{}
}

func newSlots(working, waiting int) *slots {
	return &slots{working: newShares(int64(working), int64(working)), waiting: make(chan struct{}, waiting)}
}

// work gives the client a place among those that are worked on, in its turn.
func (s *slots) work(ctx context.Context, client string) (*slot, bool) {
	give, ok := s.working.take(ctx, client, 1)
	return &slot{of: s, give: give}, ok
}

// stream gives a place among those that wait, at once or not at all.
func (s *slots) stream() (*slot, bool) {
	select {
	case s.waiting <- struct{}{}:
		return &slot{of: s, parked: true}, true
	default:
		return nil, false
	}
}

// slot is the place of one call.
type slot struct {
	of   *slots
	give func() // gives back the place among those that are worked on

	mu       sync.Mutex // guards the fields below
	parked   bool       // it has a place among those that wait instead
	released bool
}

// park makes the call one that waits. Where no more may wait it keeps its place.
func (s *slot) park() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked || s.released {
		return
	}
	select {
	case s.of.waiting <- struct{}{}:
		s.give()
		s.parked = true
	default:
	}
}

// parkAfter parks the call if it takes this long; stop is called when it is done.
func (s *slot) parkAfter(d time.Duration) (stop func()) {
	t := time.AfterFunc(d, s.park)
	return func() { t.Stop() }
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	if s.parked {
		<-s.of.waiting
		return
	}
	s.give()
}
