package plan

import (
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
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
	case l.Unknown != nil && desc.Effect != driver.EffectEffects:
		return fmt.Errorf("driver %s breaks the contract: it has no effects and answers unknown", c.Driver)
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
