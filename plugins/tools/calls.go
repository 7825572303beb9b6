package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	// keptFor is how long the result of a call is known after its end.
	keptFor = time.Hour
	// maxCalls bounds the calls that are kept, whether they have ended or not.
	maxCalls = 64
	// patience is how long Render waits for the end of a call before it answers that
	// the call is pending, cancelPatience how long where the call was cancelled.
	patience, cancelPatience = 2 * time.Second, 5 * time.Second
	// askAgain is after how long asking again makes sense.
	askAgain = time.Second
)

// errCancelled is why a call ends that somebody cancelled.
var errCancelled = errors.New("it was cancelled")

// call is one call of a tool, which is being made or has ended.
type call struct {
	plan     plan
	found    mcpclient.Found
	asked    display
	evidence json.RawMessage // its schema
	limit    time.Duration
	// redescribed: the tool's description is not the one that was accepted.
	redescribed bool
	again       bool // it may have been made before, with the same key
	end         context.CancelCauseFunc
	progress    atomic.Pointer[mcpclient.Progress]
	done        chan struct{} // closed when result is set
	result      driver.RenderResult
}

func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait is the result, or that there is none yet.
func (c *call) wait(ctx context.Context, req driver.RenderRequest) driver.RenderResult {
	most := patience
	if req.Cancel {
		most = cancelPatience
	}
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.outcome(req)
	case <-timer.C:
	case <-ctx.Done():
	}
	res := driver.RenderLater(fmt.Sprintf("the tool %s of %s is being called, for at most %s", c.plan.Tool, c.plan.Server, c.limit), askAgain)
	if p := c.progress.Load(); p != nil {
		res.Pending.Reason += "; the server reports " + p.String()
		if share, known := p.Share(); known {
			res.Pending.Progress = &share
		}
	}
	return res
}

// outcome is the result of a call that has ended. Only whoever asks what came of a
// call hears that it was not made.
func (c *call) outcome(req driver.RenderRequest) driver.RenderResult {
	if c.result.NotDone != nil && !req.Recover {
		return driver.CannotRender(c.result.NotDone.Reason)
	}
	return c.result
}

// calls are those of this process, by their idempotency keys. Safe for concurrent use.
type calls struct {
	mu    sync.Mutex // guards the fields below
	all   map[string]*call
	order []string // keys, the oldest first
}

func newCalls() *calls { return &calls{all: map[string]*call{}} }

func (cs *calls) find(key string) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.all[key]
}

// errTooMany keeps a call from being made.
var errTooMany = fmt.Errorf("%d calls of tools are being made already; try again once one of them has ended", maxCalls)

// add keeps a call, in place of the oldest one that has ended if there are too many.
// If the key is known it returns the call that has it.
func (cs *calls) add(key string, c *call) (*call, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if known := cs.all[key]; known != nil {
		return known, nil
	}
	if len(cs.all) >= maxCalls && !cs.evict() {
		return nil, errTooMany
	}
	cs.all[key] = c
	cs.order = append(cs.order, key)
	return c, nil
}

// evict needs the lock.
func (cs *calls) evict() bool {
	for _, key := range cs.order {
		if cs.all[key].ended() {
			cs.remove(key)
			return true
		}
	}
	return false
}

// remove needs the lock.
func (cs *calls) remove(key string) {
	delete(cs.all, key)
	cs.order = slices.DeleteFunc(cs.order, func(other string) bool { return other == key })
}

// ended starts the time after which the result of a call is forgotten.
func (cs *calls) ended(key string, c *call) {
	time.AfterFunc(keptFor, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.all[key] == c {
			cs.remove(key)
		}
	})
}

// refuse answers for a call that this process knows nothing of: it ended with the
// process that made it. A call with its key that is still on its way is not made.
func (cs *calls) refuse(key string) driver.RenderResult {
	lost := &call{
		end: func(error) {}, done: make(chan struct{}),
		result: driver.RenderUnknown("the call ended with the driver process that made it, and nobody saw its end"),
	}
	close(lost.done)
	if known, err := cs.add(key, lost); err == nil && known == lost {
		cs.ended(key, lost)
	}
	return lost.result
}
