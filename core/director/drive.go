package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
)

// maxHops bounds one call: far above what any protocol needs, so that a driver
// that never makes up its mind cannot keep a call for ever.
const maxHops = 1000

// drive continues until somebody is needed: the client (Round.Ask) or the agent
// (Round.Reply).
func (t *turn) drive(ctx context.Context) (Round, error) {
	for range maxHops {
		round, err := t.hop(ctx)
		if shown := (*fault.Error)(nil); asFault(err, &shown) {
			return halt(ctx, t, shown)
		}
		if err != nil || round.Reply != nil || round.Ask != nil {
			return round, err
		}
		if err := ctx.Err(); err != nil {
			return Round{}, err
		}
	}
	return halt(ctx, t, plan.Unavailable("step %d went round %d times without a verdict", t.Run.Step.Index, maxHops))
}

// hop does the next thing that is due. An empty Round means: look again.
func (t *turn) hop(ctx context.Context) (Round, error) {
	t.tick()
	if plan.Complete(t.State) {
		return completed(ctx, t)
	}
	if t.Run.Step.Call != nil {
		return follow(ctx, t)
	}
	if in, missing := input.OfRun(*t.Run, t.Chain); missing != nil {
		return obtainRunInput(ctx, t, in, missing)
	}
	if in, due, err := offerDue(ctx, t); due || err != nil {
		return offer(ctx, t, in, err)
	}
	if t.Run.Step.PendingDecline != "" {
		return notifyDecline(ctx, t)
	}
	k, err := t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	if again, err := startOver(t, k); again || err != nil {
		return Round{}, err
	}
	switch {
	case len(t.Run.Step.Inputs) > 0:
		in := plan.DueInput(t.State, k)
		if a := plan.ApprovedAnswer(t.State, k, in); a != nil {
			return Round{}, takeApproval(t, in, a)
		}
		return obtain(ctx, t, k, in)
	case t.Run.Step.Withheld != nil:
		return conclude(ctx, t, k)
	}
	return advance(ctx, t, k)
}
