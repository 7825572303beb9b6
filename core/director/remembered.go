package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// lookUpDecline returns the decline of the action that counts for the run; nil: there is none.
func lookUpDecline(ctx context.Context, t *turn, a declines.Action) (*declines.Decline, error) {
	if t.change.Absent().Declines {
		return nil, nil
	}
	return t.e.parts.Declines.Remembered(ctx, t.Run.Principal, t.Run.Space, a)
}

// loadDecline looks up whether a person declined what is to be approved.
func loadDecline(ctx context.Context, t *turn) error {
	action, err := plan.ActionToApprove(t.State)
	if err != nil {
		return err
	}
	t.Decline, err = lookUpDecline(ctx, t, action)
	t.DeclinePart = t.Decline != nil && !t.Decline.Action.Includes(action)
	return err
}

// gates reports whether an approval stands in front of the input although the step
// asks for none, because a person declined the same: a copy of the protocol could
// leave the approval out.
func gates(ctx context.Context, t *turn, in driver.Input) (bool, error) {
	if input.Of(in.Kind).Ungated {
		return false, nil
	}
	action, err := plan.ActionOf(t.State, in)
	if err != nil {
		// Nothing tells it from what was declined.
		action = declines.Any(in.Type)
	}
	d, err := lookUpDecline(ctx, t, action)
	return d != nil, err
}

// remember keeps that a person declined what was to be approved.
func remember(ctx context.Context, t *turn, d declines.Decline) error {
	defer t.change.Stored()
	return t.e.parts.Declines.Remember(ctx, d)
}

// allow keeps what the person allowed. The answer is stored first: another server may have
// taken one before, and then this one allows nothing.
func allow(ctx context.Context, t *turn, q run.Question) error {
	all, err := offers.Allowed(q, t.Run.ID)
	if err != nil {
		return err
	}
	t.recordBegun()
	if err := t.save(ctx); err != nil {
		return err
	}
	defer t.change.Stored()
	_, err = t.e.parts.Grants.Allow(ctx, t.Caller, all)
	return err
}

// forget removes the declines of what a person has approved, now that this is stored:
// another server may have taken a decline before.
func forget(ctx context.Context, t *turn) {
	if t.Approved == nil {
		return
	}
	if err := t.e.parts.Declines.Forget(ctx, t.Run.Principal, t.Run.Space, t.Approved); err != nil {
		t.e.log.WarnContext(ctx, "a decline is still remembered, so that a person will be asked again", "run", t.Run.ID, "error", err)
	}
	t.Approved = nil
}
