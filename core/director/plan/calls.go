package plan

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// OutcomeUnknown is the error of a call that waits until somebody knows what
// came of a driver's call.
func OutcomeUnknown(s *State) *fault.Error {
	c := s.Run.Step.Call
	why := "the server ended, or lost its reply, before the outcome was recorded"
	if c.Unknown != "" {
		why = c.Unknown
	}
	return fault.New(fault.OutcomeUnknown, "Driver %s was called for step %d at %s (attempt %d) and may have changed the world, but nobody can tell whether it did: %s. "+
		"It is not called again for this attempt, so that nothing is done twice.", c.Driver, s.Run.Step.Index, c.At.UTC().Format(time.RFC3339), c.Attempt, why).
		WithNext("tell the user what is unknown, and do not do it yourself. Once they have found out, the operator records it for run %s "+
			"(`kairos runs decide`, happened or not); then call kairos_next with %s again", s.Run.ID, protocol.URI(OpenStep(s).UUID))
}

// RetryIn is how long to wait before the driver of the call is asked again. A
// driver cannot have asked for more than maxRetry: the clock was set back since.
func RetryIn(s *State, c run.Call) time.Duration {
	wait := c.RetryAt.Sub(s.Now)
	if wait > maxRetry+clock.Tolerance {
		return 0
	}
	return max(wait, 0)
}

// Breach is the error of an answer that breaks the contract of drivers.
func Breach(s *State, c run.Call, recovering bool, l Deferral) error {
	desc, _, _ := s.Drivers.Describe(c.Driver)
	switch {
	case l.Pending != nil && desc.Effect == driver.EffectPure:
		return fmt.Errorf("driver %s breaks the contract: it is pure and answers pending", c.Driver)
	case l.Unknown != nil && desc.Effect != driver.EffectChanges:
		return fmt.Errorf("driver %s breaks the contract: it changes nothing and answers unknown", c.Driver)
	case l.NotDone != nil && !recovering:
		return fmt.Errorf("driver %s breaks the contract: it answers not_done and was not asked what came of a call", c.Driver)
	case l.Pending != nil && c.Acts && !desc.Has(driver.FeatureRecover):
		return fmt.Errorf("driver %s breaks the contract: it answers pending and cannot be asked what came of the call (feature %s)", c.Driver, driver.FeatureRecover)
	}
	return nil
}

// Endable reports whether the driver of an open call can end it.
func Endable(s *State) bool {
	c := s.Run.Step.Call
	if c == nil {
		return false
	}
	desc, _, _ := s.Drivers.Describe(c.Driver)
	return desc.Has(driver.FeatureCancel)
}

// Bounds of the time after which a driver is asked again.
const (
	minRetry     = 100 * time.Millisecond
	defaultRetry = 5 * time.Second
	maxRetry     = time.Hour
)

// RetryAfter is when to ask again, as the driver wishes within the bounds.
func RetryAfter(p driver.Pending) time.Duration {
	if p.RetryAfter == 0 {
		return defaultRetry
	}
	return min(max(time.Duration(min(p.RetryAfter, maxRetry.Seconds())*float64(time.Second)), minRetry), maxRetry)
}

// Deferral is what a driver may answer instead of an outcome.
type Deferral struct {
	Pending *driver.Pending
	Unknown *driver.Unknown
	NotDone *driver.NotDone
}

// maxNotDone is how often one call makes another attempt after a driver said that the one
// before did nothing.
const maxNotDone = 1

// Made is a call of a driver that was made.
type Made struct {
	Call run.Call
	// Recovering: it asked what came of an earlier call.
	Recovering bool
	Err        error
}

// unfinished is what follows from a call that broke a rule, which Err then says, was never
// made, or came to no outcome; nil: it has an outcome. Again continues with a call that was
// never made as one that cannot have acted.
func (m *Made) unfinished(s *State, said Deferral, again func(*State, Made) Action) Action {
	if m.Err == nil {
		m.Err = Breach(s, m.Call, m.Recovering, said)
	}
	if m.Call.Acts && notCalled(m.Err) && !m.Recovering {
		idle := *m
		idle.Call.Acts = false
		return Apply{Events: settle(s, neverCalled(m.Err)), Then: Look(func(s *State) Action { return again(s, idle) })}
	}
	return withoutOutcome(s, m.Call, m.Recovering, said, m.Err)
}

// withoutOutcome is what follows where a call may have acted and came to no outcome; nil: it came to
// one, or cannot have acted. The driver is asked next, once.
func withoutOutcome(s *State, c run.Call, recovering bool, l Deferral, failure error) Action {
	switch {
	case l.NotDone != nil && c.Cancelled:
		return cancelled(s, l.NotDone.Reason)
	case !c.Acts:
		return nil
	case failure != nil && recovering:
		return Unsettle(s, "it was asked what came of the call: "+failure.Error(), true)
	case failure != nil:
		return Unsettle(s, failure.Error(), recovering)
	case l.Unknown != nil:
		return Unsettle(s, l.Unknown.Reason, recovering)
	case l.NotDone == nil:
		return nil
	}
	undone := Apply{Events: settle(s, "not done: "+l.NotDone.Reason)}
	if s.NotDone > maxNotDone {
		undone.Then = Halt{Fault: Unavailable("driver %s was called for step %d and did nothing: %s. Nothing is lost",
			c.Driver, s.Run.Step.Index, plain.Clip(l.NotDone.Reason, 500))}
	}
	return undone
}

// notCalled reports whether an error says that the driver was never reached.
func notCalled(err error) bool {
	var e interface{ NotCalled() bool }
	return errors.As(err, &e) && e.NotCalled()
}

func neverCalled(err error) string { return "it was not called: " + err.Error() }

// cancelled is the outcome of a call that ended because somebody cancelled it.
func cancelled(s *State, why string) Action {
	c := *s.Run.Step.Call
	why = plain.Clip(why, 500)
	return Apply{
		Events: settle(s, "cancelled: "+why),
		Then: Halt{Fault: fault.New(fault.Cancelled, "What driver %s did for step %d was cancelled: %s.", c.Driver, s.Run.Step.Index, why).
			WithNext("ask the user whether to start it again, with kairos_next and %s, or to end the run with kairos_attest and outcome failure", protocol.URI(OpenStep(s).UUID))},
	}
}

// Unsettle records why the outcome of the open call is not known. The call ends with it,
// unless its driver can be asked and was not yet.
func Unsettle(s *State, why string, asked bool) Action {
	c, unsettled := s.Run.Step.Call, Apply{}
	if why = plain.Clip(why, 600); c.Unknown != why {
		unsettled.Events = []run.Event{{Kind: run.Unsettled, Input: c.Input, Via: c.Driver, Reason: why}}
	}
	if desc, _, _ := s.Drivers.Describe(c.Driver); asked || !desc.Has(driver.FeatureRecover) {
		unsettled.Then = Look(func(s *State) Action { return Halt{Fault: OutcomeUnknown(s)} })
	}
	return unsettled
}

// deferred records that the outcome of a call is pending, and waits for it. An answer that the driver
// repeats is not recorded again.
func deferred(s *State, c run.Call, p driver.Pending, state driver.State) Action {
	p.Reason, p.Message = plain.Clip(p.Reason, 500), plain.Clip(p.Message, 1000)
	if p.Progress != nil {
		p.Progress = new(float64(int(*p.Progress*100)) / 100)
	}
	before := s.Run.Step.Call
	said := p
	said.RetryAfter = 0
	c.At = cmp.Or(c.At, s.Now)
	c.Pending, c.RetryAt, c.Unknown = &said, s.Now.Add(RetryAfter(p)), ""
	if before != nil && before.Pending != nil && reflect.DeepEqual(*before.Pending, said) && reflect.DeepEqual(state, s.Run.Step.State) {
		return Wait{Call: &c}
	}
	return Apply{
		Events: []run.Event{{Kind: run.Deferred, Input: c.Input, Via: c.Driver, Call: &c, State: state, Reason: p.Reason}},
		Then:   Wait{Call: &c},
	}
}
