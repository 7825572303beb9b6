// Package observe says what the engine did, to whoever counts it. It is pure.
package observe

import (
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Observer hears what the engine did, once it is done and stored. It is called
// concurrently, with values that the caller keeps using, and returns at once.
type Observer interface {
	library.Observer
	// Routed: a route to an input was tried to its end.
	Routed(Route)
	// Begun: a run is opened.
	Begun(space string)
	// Attested: a run is closed with an outcome.
	Attested(Attested)
}

// Route is one try to obtain an input of a step, from its beginning to its end.
type Route struct {
	Run       run.ID
	Step      int    // its index
	Space     string // of whom the run is
	Challenge string // type of the step's challenge
	Input     string // kind of the input
	// Via is the driver; empty: the submission was refused before any was chosen.
	Via     string
	Outcome Outcome
	// ErrorCode says why it gave no answer, or none that was accepted; empty where
	// it did, and where it was merely out of reach.
	ErrorCode string
	Took      time.Duration // from the question or the beginning of the try
	// Counted: the agent's failure, one of those after which it may choose its way.
	Counted bool
}

// Outcome is how a try ended.
type Outcome string

// How tries end, besides the outcomes of decision: unavailable, error, invalid,
// declined, timeout and abandoned.
const (
	Accepted Outcome = "accepted" // evidence, and its driver took it
	Rejected Outcome = "rejected" // evidence, and its driver did not
	Answered Outcome = "answered" // any other input
	Refused  Outcome = "refused"  // a submission that nobody judged
	declined Outcome = "declined"
)

// Attested is a run that was closed.
type Attested struct {
	Space    string
	Outcome  string
	Verified bool
}

// Silence is the Observer where nobody listens.
type Silence struct{ library.Silence }

// Routed does nothing.
func (Silence) Routed(Route) {}

// Begun does nothing.
func (Silence) Begun(string) {}

// Attested does nothing.
func (Silence) Attested(Attested) {}

// RouteOf is the route that an event ends, if it ends one, and the input
// that it led to.
func RouteOf(s *plan.State, step run.Step, ev run.Event) (r Route, to string, ends bool) {
	r = Route{Run: s.Run.ID, Step: step.Index, Space: s.Run.Space, Via: ev.Via}
	to = ev.Input
	switch ev.Kind {
	case run.Supplied, run.Answered:
		r.Outcome = Answered
	case run.RouteClosed:
		to, r.Via, r.Outcome = ev.Attempt.Input, ev.Attempt.Via, Outcome(ev.Attempt.Outcome)
		r.ErrorCode = closedCode(*ev.Attempt)
	case run.Declined:
		r.Outcome, r.ErrorCode = declined, string(fault.UserDeclined)
	case run.Accepted, run.Rejected:
		to, r.Via = input.EvidenceKind.Name, runs.CoreDriver // of a step without a challenge
		if a, ok := plan.EvidenceOf(step); ok {
			to, r.Via = a.InputID, a.Via
		}
		r.Outcome = Accepted
		if ev.Kind == run.Rejected {
			r.Outcome, r.ErrorCode, r.Counted = Rejected, ev.Code, true
		}
	case run.Refused:
		to = input.EvidenceKind.Name
		r.Via, r.Outcome, r.ErrorCode, r.Counted = s.Trying, Refused, ev.Code, true
	default:
		return Route{}, "", false
	}
	r.Challenge, r.Input = typeAt(s, step.Index), plan.KindOf(step, to)
	if ev.Kind == run.Accepted || ev.Kind == run.Rejected {
		r.Input = input.EvidenceKind.Name
	}
	return r, to, true
}

// closedCode is the code that a reply has which needs the agent because of this
// attempt; empty where the route was merely out of reach.
func closedCode(a run.Attempt) string {
	switch decision.Outcome(a.Outcome) {
	case decision.Errored, decision.Invalid, decision.TimedOut, decision.Abandoned:
		return string(fault.OfRoute(a.Via))
	case decision.Exhausted:
		return string(fault.SamplingBudgetExceeded)
	}
	return ""
}

// typeAt is the challenge type of a step of the pinned protocol.
func typeAt(s *plan.State, index int) string {
	if s.Opened == index {
		return s.Task.Common.Type
	}
	if index < 1 || index > len(s.Chain.Steps) {
		return ""
	}
	return drivers.Setup{Tree: s.Tree}.TypeOf(s.Chain.Steps[index-1])
}
