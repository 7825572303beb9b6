package rest

import (
	"context"
	"slices"
	"sync"
)

// shares divides a capacity (places, bytes) among clients. Where it is used up,
// callers wait in line: clients take turns, so that one with many calls does
// not keep out another with few.
type shares struct {
	capacity  int64
	perClient int64 // the most that one client may have

	mu    sync.Mutex // guards the fields below
	used  int64
	by    map[string]int64    // used, by client
	lines map[string][]*claim // callers that wait, by client, first come first
	turns []string            // clients that wait; the next one first
}

// claim is a part of the capacity that a caller waits for.
type claim struct {
	n       int64
	granted chan struct{} // closed when the caller has it
}

func newShares(capacity, perClient int64) *shares {
	return &shares{capacity: capacity, perClient: min(perClient, capacity), by: make(map[string]int64), lines: make(map[string][]*claim)}
}

// take takes n of the capacity for the client, at most what one client may
// have, and waits for its turn until ctx ends. If ok is false nothing is taken;
// otherwise the caller must call give exactly once.
func (s *shares) take(ctx context.Context, client string, n int64) (give func(), ok bool) {
	n = min(n, s.perClient)
	give = func() { s.give(client, n) }
	c := &claim{n: n, granted: make(chan struct{})}
	s.mu.Lock()
	if len(s.lines[client]) == 0 {
		s.turns = append(s.turns, client)
	}
	s.lines[client] = append(s.lines[client], c)
	s.grantLocked() // there may be room for this client although others wait
	s.mu.Unlock()
	select {
	case <-c.granted:
		return give, true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c.granted: // at the same moment
		s.useLocked(client, -n)
	default:
		s.leaveLocked(client, c)
	}
	s.grantLocked()
	return nil, false
}

func (s *shares) give(client string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.useLocked(client, -n)
	s.grantLocked()
}

func (s *shares) useLocked(client string, n int64) {
	s.used += n
	if s.by[client] += n; s.by[client] == 0 {
		delete(s.by, client)
	}
}

// grantLocked serves the clients in turn, as far as the capacity goes. A claim
// that is too large for what is left is not overtaken by smaller ones, or it
// would never be served; a client that has as much as it may have is passed over.
func (s *shares) grantLocked() {
	for i := 0; i < len(s.turns); {
		client := s.turns[i]
		c := s.lines[client][0]
		switch {
		case s.by[client]+c.n > s.perClient:
			i++
			continue
		case s.used+c.n > s.capacity:
			return
		}
		s.useLocked(client, c.n)
		close(c.granted)
		s.leaveLocked(client, c)
		if len(s.lines[client]) > 0 { // it has had its turn
			s.turns = append(slices.Delete(s.turns, i, i+1), client)
		}
	}
}

func (s *shares) leaveLocked(client string, c *claim) {
	line := slices.DeleteFunc(s.lines[client], func(other *claim) bool { return other == c })
	if len(line) > 0 {
		s.lines[client] = line
		return
	}
	delete(s.lines, client)
	s.turns = slices.DeleteFunc(s.turns, func(other string) bool { return other == client })
}
