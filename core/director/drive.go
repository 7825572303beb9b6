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
			return t.replies.halt(ctx, shown)
		}
		if err != nil || round.Reply != nil || round.Ask != nil {
			return round, err
		}
		if err := ctx.Err(); err != nil {
			return Round{}, err
		}
	}
	return t.replies.halt(ctx, plan.Unavailable("step %d went round %d times without a verdict", t.Run.Step.Index, maxHops))
}

// hop does the next thing that is due. An empty Round means: look again.
func (t *turn) hop(ctx context.Context) (Round, error) {
	t.tick()
	if plan.Complete(t.State) {
		return t.replies.completed(ctx)
	}
	if t.Run.Step.Call != nil {
		return t.calls.follow(ctx)
	}
	if in, missing := input.OfRun(*t.Run, t.Chain); missing != nil {
		return t.obtaining.obtainRunInput(ctx, in, missing)
	}
	if in, due, err := t.offering.due(ctx); due || err != nil {
		return t.offering.obtain(ctx, in, err)
	}
	if t.Run.Step.PendingDecline != "" {
		return t.replies.notifyDecline(ctx)
	}
	k, err := t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	if again, err := t.verdicts.startOver(k); again || err != nil {
		return Round{}, err
	}
	switch {
	case len(t.Run.Step.Inputs) > 0:
		in := plan.DueInput(t.State, k)
		if a := plan.ApprovedAnswer(t.State, k, in); a != nil {
			return Round{}, t.approvals.takeApproval(in, a)
		}
		return t.obtaining.obtain(ctx, k, in)
	case t.Run.Step.Withheld != nil:
		return t.verdicts.conclude(ctx, k)
	}
	return t.verdicts.advance(ctx, k)
}
