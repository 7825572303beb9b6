package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
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

// deeds are what one use case has claimed and done. They belong to its goroutine.
type deeds struct {
	run run.ID // claimed; empty: none
	// acted is the driver with effects on the world that was called; empty: none.
	acted string
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

// challengeDriver finds the driver in order to call it.
func (e held) challengeDriver(name string) (driver.Challenge, bool) {
	e.calling(name)
	return e.Drivers.Challenge(name)
}

// capabilityDriver is challengeDriver for one that obtains inputs; within is the
// route's call timeout, 0 where it has none.
func (e held) capabilityDriver(name string, within time.Duration) (driver.Capability, bool) {
	e.calling(name)
	return e.Drivers.Capability(name, within)
}

func (e held) calling(name string) {
	if d, _, ok := e.Drivers.Describe(name); ok && d.Effect == driver.EffectEffects {
		e.deeds.acted = name
	}
}

// saveAttempts bounds how often a use case is repeated because another writer was first.
const saveAttempts = 4

// again repeats a use case that lost against another writer of the same run,
// unless it has changed the world already.
func again[T any](e held, do func() (T, error)) (out T, err error) {
	for range saveAttempts {
		out, err = do()
		if fault.CodeOf(err) != fault.Conflict {
			return out, err
		}
		if acted := e.deeds.acted; acted != "" {
			id := e.deeds.run
			return out, fault.Wrap(err, fault.Conflict, "driver %s, which changes the world, was called for run %s, but another "+
				"server changed the run meanwhile, so what came of it is not recorded; it is not called again by itself", acted, id).
				WithNext("find out what the driver has done, then call kairos_begin with session_id %s to see the open step", id).With("run_id", id)
		}
	}
	return out, err
}
