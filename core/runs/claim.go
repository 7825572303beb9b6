package runs

import (
	"context"
	"fmt"
	"sync"

	"github.com/kairos-mcp/kairos/core/access"
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

// take waits until nobody else drives the run or ctx is done. A caller that gets nil
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
		c.release(id, k)
		return fmt.Errorf("wait for another call on run %s: %w", id, ctx.Err())
	}
}

func (c *claims) give(id run.ID) {
	c.mu.Lock()
	k := c.runs[id]
	c.mu.Unlock()
	<-k.turn
	c.release(id, k)
}

func (c *claims) release(id run.ID, k *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(c.runs, id)
	}
}

// Claim is the run that a use case drives alone. It belongs to its goroutine.
type Claim struct {
	keeper *Keeper
	run    run.ID // claimed; empty: none
}

// Claim returns a claim on no run yet.
func (k *Keeper) Claim() *Claim { return &Claim{keeper: k} }

// Take makes the use case the only one of this process that drives the run, until
// it releases the claim or turns to another run.
func (c *Claim) Take(ctx context.Context, id run.ID) error {
	if c.run == id {
		return nil
	}
	c.Release()
	if err := c.keeper.claims.take(ctx, id); err != nil {
		return err
	}
	c.run = id
	return nil
}

// Open claims a run and is a change of it that the caller may continue.
func (c *Claim) Open(ctx context.Context, caller access.Caller, id run.ID) (*Change, error) {
	if err := c.Take(ctx, id); err != nil {
		return nil, err
	}
	return c.keeper.Open(ctx, caller, id)
}

// Oversee claims a run and is a change of it, if the caller oversees it.
func (c *Claim) Oversee(ctx context.Context, caller access.Caller, id run.ID) (*Change, error) {
	if err := c.Take(ctx, id); err != nil {
		return nil, err
	}
	return c.keeper.Oversee(ctx, caller, id)
}

// Release gives the run to whoever waits for it.
func (c *Claim) Release() {
	if c.run != "" {
		c.keeper.claims.give(c.run)
		c.run = ""
	}
}

// saveAttempts bounds how often a use case is repeated because another writer was first.
const saveAttempts = 4

// Again repeats a use case that lost against another writer of the same run. A
// driver that changed the world meanwhile is not called again: its call is in
// the run.
func Again[T any](do func() (T, error)) (out T, err error) {
	for range saveAttempts {
		if out, err = do(); fault.CodeOf(err) != fault.Conflict {
			break
		}
	}
	return out, err
}
