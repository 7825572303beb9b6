package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// remembered is what people declined in other runs, or earlier in this one.
type remembered struct {
	t *turn
	// approved is the action that a person has approved, until that is stored.
	approved declines.Action
}

// look returns the decline of the action that counts for the run; nil: there is none.
func (re *remembered) look(ctx context.Context, a declines.Action) (*declines.Decline, error) {
	if re.t.change.Absent().Declines {
		return nil, nil
	}
	return re.t.e.declines.Remembered(ctx, re.t.Run.Principal, re.t.Run.Space, a)
}

// load looks up whether a person declined what is to be approved.
func (re *remembered) load(ctx context.Context) error {
	action, err := plan.DeclinedAction(re.t.State)
	if err != nil {
		return err
	}
	re.t.Decline, err = re.look(ctx, action)
	re.t.DeclinePart = re.t.Decline != nil && !re.t.Decline.Action.Includes(action)
	return err
}

// gates reports whether an approval stands in front of the input although the step
// asks for none, because a person declined the same: a copy of the protocol could
// leave the approval out.
func (re *remembered) gates(ctx context.Context, in driver.Input) (bool, error) {
	if input.Of(in.Kind).Ungated {
		return false, nil
	}
	action, err := plan.ActionOf(re.t.State, in)
	if err != nil {
		// Nothing tells it from what was declined.
		action = declines.Any(in.Type)
	}
	d, err := re.look(ctx, action)
	return d != nil, err
}

// remember keeps that a person declined what was to be approved.
func (re *remembered) remember(ctx context.Context, in driver.Input, via string) error {
	desc, _, _ := re.t.e.Drivers.Describe(via)
	if !input.Of(in.Kind).Approves || !desc.Has(driver.FeatureHuman) {
		return nil
	}
	action, err := plan.DeclinedAction(re.t.State)
	if err != nil {
		return err
	}
	s := re.t.Run.Step
	defer re.t.change.Stored()
	return re.t.e.declines.Remember(ctx, declines.Decline{
		Principal: re.t.Run.Principal, Space: re.t.Run.Space, Action: action, Run: re.t.Run.ID, Step: s.Index, Label: re.t.Chain.Steps[s.Index-1].Label, Title: re.t.Chain.Title, Via: via,
	})
}

// approve notes that a person has approved the action. The holder of a link is not
// known to be one.
func (re *remembered) approve(a *run.Approval) (err error) {
	if a == nil || a.Provenance != driver.ClientAttested {
		return nil
	}
	re.approved, err = plan.DeclinedAction(re.t.State)
	return err
}

// forget removes the declines of what a person has approved, now that this is stored:
// another server may have taken a decline before.
func (re *remembered) forget(ctx context.Context) {
	if re.approved == nil {
		return
	}
	if err := re.t.e.declines.Forget(ctx, re.t.Run.Principal, re.t.Run.Space, re.approved); err != nil {
		re.t.e.log.WarnContext(ctx, "a decline is still remembered, so that a person will be asked again", "run", re.t.Run.ID, "error", err)
	}
	re.approved = nil
}
