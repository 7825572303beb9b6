package run

import (
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Call is a call of a driver that has no known outcome yet: it may act and was
// recorded before it was made, or the driver said that its outcome is pending.
// While there is one, nothing else is tried for the step.
type Call struct {
	// Input that is obtained, by id. It is empty where answers are judged.
	Input  string `json:"input,omitempty"`
	Driver string `json:"driver"`
	Route  int    `json:"route,omitempty"`
	// Path of the route in the decision tree.
	Path string `json:"path,omitempty"`
	// Key identifies the call to the driver.
	Key string `json:"key,omitempty"`
	// Attempt at the input, or at the step, from 1.
	Attempt int `json:"attempt"`
	// Acts: the driver changes the world, so it is asked what came of the call
	// and never called again.
	Acts bool `json:"acts,omitempty"`
	// At is when the call was made first; an approval that held then covers it.
	At time.Time `json:"at"`
	// Pending is what the driver said last, or nil.
	Pending *driver.Pending `json:"pending,omitempty"`
	// RetryAt is when asking again makes sense, where Pending is set.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Unknown is why nobody can tell what came of the call. It is empty until somebody has to know.
	Unknown string `json:"unknown,omitempty"`
	// Cancelled: somebody wants it to end.
	Cancelled bool `json:"cancelled,omitempty"`
}

// is reports whether both are the same call.
func (c Call) is(o Call) bool {
	return c.Input == o.Input && c.Driver == o.Driver && c.Attempt == o.Attempt && c.Key == o.Key
}

// Attempt returns the number of the next attempt at an input, or for "" at the step.
func (s Step) Attempt(input string) int { return s.Attempts[input] + 1 }

// tried counts an attempt that came to a known outcome.
func (s *Step) tried(input string) {
	if s.Attempts == nil {
		s.Attempts = make(map[string]int)
	}
	s.Attempts[input]++
}

// called records a call before it is made, because it may act.
func called(r *Run, e Event) error {
	switch c := e.Call; {
	case c == nil || !c.Acts || c.Driver == "" || c.Attempt != r.Step.Attempt(c.Input):
		return lacks("a call that may act, or its attempt")
	default:
		r.wait(*c)
	}
	return nil
}

// deferred records what a driver says of a call whose outcome is pending.
func deferred(r *Run, e Event) error {
	c := e.Call
	switch open := r.Step.Call; {
	case c == nil || c.Pending == nil || c.Driver == "":
		return lacks("a call that is pending")
	case open != nil && !open.is(*c):
		return fmt.Errorf("another call is open: %w", ErrImpossible)
	case open == nil && c.Attempt != r.Step.Attempt(c.Input):
		return lacks("the attempt that is due")
	}
	if c.Input == "" && e.State.Version != 0 {
		r.Step.State = e.State
	}
	r.wait(*c)
	return nil
}

// cancelled marks the open call as one that is to end.
func cancelled(r *Run, e Event) error {
	if r.Step.Call == nil || e.Reason == "" {
		return lacks("an open call, or who cancels it")
	}
	c := *r.Step.Call // the run before the event has it, too
	c.Cancelled, c.RetryAt = true, time.Time{}
	r.Step.Call = &c
	return nil
}

// unsettled records why nobody can tell what came of the open call.
func unsettled(r *Run, e Event) error {
	if r.Step.Call == nil || !r.Step.Call.Acts || e.Reason == "" {
		return lacks("an open call that may have acted, or a reason")
	}
	c := *r.Step.Call // the run before the event has it, too
	c.Unknown, c.Pending, c.RetryAt = e.Reason, nil, time.Time{}
	r.Step.Call = &c
	return nil
}

// settled ends the open call with an outcome that has no event of its own.
func settled(r *Run, _ Event) error {
	if r.Step.Call == nil {
		return lacks("an open call")
	}
	r.Step.tried(r.Step.Call.Input)
	if r.Step.Call.Cancelled && r.Step.Plan != nil {
		// Nobody wants what was approved any more, so it is planned and asked anew.
		r.Step.Plan, r.Step.Approval = nil, nil
	}
	r.release()
	return nil
}

// decided ends the open call by what a person found out about it. If it
// happened while an input was obtained, the answer is what they say came of it.
func decided(r *Run, e Event) error {
	c := r.Step.Call
	switch {
	case c == nil || !c.Acts || e.Decision == nil || e.Decision.By == "":
		return lacks("an open call that may have acted, or who decides")
	case !e.Decision.Happened:
		// What was approved was that call. Another one asks again.
		r.Step.Approval, r.Step.Plan = nil, nil
		return settled(r, e)
	case c.Input == "":
		return settled(r, e)
	}
	e.Input, e.Via = c.Input, c.Driver
	return supplied(r, e)
}

// Decision is what a person found out about a call whose outcome was unknown.
type Decision struct {
	Happened bool   `json:"happened"`
	By       string `json:"by"`
}

// mayJudge refuses a verdict while an input is being obtained.
func (r *Run) mayJudge() error {
	if c := r.Step.Call; c != nil && c.Input != "" {
		return fmt.Errorf("input %q waits for driver %s: %w", c.Input, c.Driver, ErrImpossible)
	}
	return nil
}

// redacted is the call without what its driver said.
func (c Call) redacted() *Call {
	return &Call{Input: c.Input, Driver: c.Driver, Route: c.Route, Key: c.Key, Attempt: c.Attempt, Acts: c.Acts, At: c.At, RetryAt: c.RetryAt}
}

// wait makes the call the one that the step waits for.
func (r *Run) wait(c Call) {
	r.Step.Question = nil
	r.Step.Call = &c
	r.State = Waiting
}

// release ends the wait for the open call, if there is one.
func (r *Run) release() {
	r.Step.Call = nil
	if r.State == Waiting {
		r.State = Open
	}
}
