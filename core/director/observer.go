package director

import (
	"context"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

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
	r, to, ends := observe.RouteOf(t.State, step, *ev)
	if !ends {
		return
	}
	r.Took = max(0, ev.At.Sub(beganAt(t, to)))
	ev.Took = r.Took
	if ev.Kind == run.Accepted || ev.Kind == run.Rejected {
		t.began = nil // the inputs of another step, or of another attempt, have the same ids
	}
	silent := r.Outcome == observe.Answered && (input.Of(r.Input).Evidence || input.Of(r.Input).Internal)
	if silent || ev.Kind == run.Refused && ev.Code == string(fault.UserDeclined) {
		return // evidence ends with its verdict, nobody is asked for a similarity, and a decline is a route of its own
	}
	t.routes = append(t.routes, r)
}

// notifyObserver reports the routes, now that their events are stored.
func notifyObserver(ctx context.Context, t *turn) {
	for _, r := range t.routes {
		t.e.opt.Observer.Routed(r)
		t.e.log.InfoContext(ctx, "route ended", "run", r.Run, "step", r.Step, "challenge", r.Challenge, "input", r.Input,
			"via", r.Via, "outcome", r.Outcome, "error_code", r.ErrorCode, "took", r.Took)
	}
	t.routes = nil
}
