package director

import (
	"context"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
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
	Outcome RouteOutcome
	// ErrorCode says why it gave no answer, or none that was accepted; empty where
	// it did, and where it was merely out of reach.
	ErrorCode string
	Took      time.Duration // from the question or the beginning of the try
	// Counted: the agent's failure, one of those after which it may choose its way.
	Counted bool
}

// RouteOutcome is how a try ended.
type RouteOutcome string

// How tries end, besides the outcomes of decision: unavailable, error, invalid,
// declined, timeout and abandoned.
const (
	RouteAccepted RouteOutcome = "accepted" // evidence, and its driver took it
	RouteRejected RouteOutcome = "rejected" // evidence, and its driver did not
	RouteAnswered RouteOutcome = "answered" // any other input
	RouteRefused  RouteOutcome = "refused"  // a submission that nobody judged
	routeDeclined RouteOutcome = "declined"
)

// Attested is a run that was closed.
type Attested struct {
	Space    string
	Outcome  string
	Verified bool
}

// silence is the Observer where nobody listens.
type silence struct{ library.Silence }

func (silence) Routed(Route)      {}
func (silence) Begun(string)      {}
func (silence) Attested(Attested) {}

// begun is when a route to an input was begun.
type begun struct {
	input string
	at    time.Time
}

// beginRoute notes when a route to an input was begun.
func beginRoute(t *turn, inputID string, at time.Time) {
	t.began = append(t.began, begun{inputID, at})
}

// beganAt is when the route to an input was begun.
func beganAt(t *turn, inputID string) time.Time {
	for _, b := range slices.Backward(t.began) {
		if b.input == inputID {
			return b.at
		}
	}
	return t.Started
}

// routed keeps what an event says of a route until the event is stored, and
// puts into the event how long the route took. The step is the one that the
// event was applied to.
func routed(t *turn, step run.Step, ev *run.Event) {
	r, to, ends := routeOfEvent(t, step, *ev)
	if !ends {
		return
	}
	r.Took = max(0, ev.At.Sub(beganAt(t, to)))
	ev.Took = r.Took
	if ev.Kind == run.Accepted || ev.Kind == run.Rejected {
		t.began = nil // the inputs of another step, or of another attempt, have the same ids
	}
	silent := r.Outcome == RouteAnswered && (input.Of(r.Input).Evidence || input.Of(r.Input).Internal)
	if silent || ev.Kind == run.Refused && ev.Code == string(fault.UserDeclined) {
		return // evidence ends with its verdict, nobody is asked for a similarity, and a decline is a route of its own
	}
	r.Run, r.Step, r.Challenge = t.Run.ID, step.Index, typeAt(t, step.Index)
	t.routes = append(t.routes, r)
}

// routeOfEvent is the route that an event ends, if it ends one, and the input
// that it led to.
func routeOfEvent(t *turn, step run.Step, ev run.Event) (r Route, to string, ends bool) {
	r = Route{Space: t.Run.Space, Via: ev.Via}
	to = ev.Input
	switch ev.Kind {
	case run.Supplied, run.Answered:
		r.Outcome = RouteAnswered
	case run.RouteClosed:
		to, r.Via, r.Outcome = ev.Attempt.Input, ev.Attempt.Via, RouteOutcome(ev.Attempt.Outcome)
		r.ErrorCode = closedCode(*ev.Attempt)
	case run.Declined:
		r.Outcome, r.ErrorCode = routeDeclined, string(fault.UserDeclined)
	case run.Accepted, run.Rejected:
		to, r.Via = input.EvidenceKind.Name, runs.CoreDriver // of a step without a challenge
		if a, ok := plan.EvidenceOf(step); ok {
			to, r.Via = a.InputID, a.Via
		}
		r.Outcome = RouteAccepted
		if ev.Kind == run.Rejected {
			r.Outcome, r.ErrorCode, r.Counted = RouteRejected, ev.Code, true
		}
	case run.Refused:
		to = input.EvidenceKind.Name
		r.Via, r.Outcome, r.ErrorCode, r.Counted = t.Trying, RouteRefused, ev.Code, true
	default:
		return Route{}, "", false
	}
	r.Input = kindOf(step, to)
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

// tellRoutes tells of the routes, now that their events are stored.
func tellRoutes(ctx context.Context, t *turn) {
	for _, r := range t.routes {
		t.e.opt.Observer.Routed(r)
		t.e.log.InfoContext(ctx, "route ended", "run", r.Run, "step", r.Step, "challenge", r.Challenge, "input", r.Input,
			"via", r.Via, "outcome", r.Outcome, "error_code", r.ErrorCode, "took", r.Took)
	}
	t.routes = nil
}

// typeAt is the challenge type of a step of the pinned protocol.
func typeAt(t *turn, index int) string {
	if t.Opened == index {
		return t.Task.Common.Type
	}
	if index < 1 || index > len(t.Chain.Steps) {
		return ""
	}
	return t.setup.TypeOf(t.Chain.Steps[index-1])
}

// kindOf is the kind of an input by its id.
func kindOf(step run.Step, id string) string {
	if input.ByID(id).Reserved {
		return id
	}
	for _, in := range step.Inputs {
		if in.ID == id {
			return in.Kind
		}
	}
	return input.EvidenceKind.Name
}
