package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// claims let one use case of this process at a time drive a run. The store
// refuses the second writer too, but only after its drivers were called. The
// zero value is ready; it is safe for concurrent use.
type claims struct {
	mu   sync.Mutex // guards runs and the users of each
	runs map[run.ID]*claim
}

type claim struct {
	turn  chan struct{} // holds one element while the run is driven
	users int           // those who drive it or wait to; with the last one the claim goes
}

// take waits until nobody else drives the run or ctx is done. Who gets nil
// calls give once.
func (c *claims) take(ctx context.Context, id run.ID) error {
	c.mu.Lock()
	k := c.runs[id]
	if k == nil {
		k = &claim{turn: make(chan struct{}, 1)}
		if c.runs == nil {
			c.runs = make(map[run.ID]*claim)
		}
		c.runs[id] = k
	}
	k.users++
	c.mu.Unlock()
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		c.leave(id, k)
		return fmt.Errorf("wait for another call on run %s: %w", id, ctx.Err())
	}
}

func (c *claims) give(id run.ID) {
	c.mu.Lock()
	k := c.runs[id]
	c.mu.Unlock()
	<-k.turn
	c.leave(id, k)
}

func (c *claims) leave(id run.ID, k *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(c.runs, id)
	}
}

// deeds are what one use case has claimed. They belong to its goroutine.
type deeds struct {
	run run.ID // claimed; empty: none
}

// claim makes the use case the only one of this process that drives the run,
// until it ends or turns to another run.
func (e held) claim(ctx context.Context, id run.ID) error {
	if e.deeds.run == id {
		return nil
	}
	e.unclaim()
	if err := e.claims.take(ctx, id); err != nil {
		return err
	}
	e.deeds.run = id
	return nil
}

func (e held) unclaim() {
	if e.deeds.run != "" {
		e.claims.give(e.deeds.run)
		e.deeds.run = ""
	}
}

// saveAttempts bounds how often a use case is repeated because another writer was first.
const saveAttempts = 4

// again repeats a use case that lost against another writer of the same run. A
// driver that changed the world meanwhile is not called again: its call is in
// the run, see ready.
func again[T any](do func() (T, error)) (out T, err error) {
	for range saveAttempts {
		if out, err = do(); fault.CodeOf(err) != fault.Conflict {
			break
		}
	}
	return out, err
}
