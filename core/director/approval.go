package director

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// noteApproval lets the reply say that the step is approved, if it is.
func noteApproval(t *turn) {
	if plan.ApprovalGiven(t.State) {
		t.Note = fmt.Sprintf("Step %d is approved.", t.Run.Step.Index)
	}
}

// noteReport finds out whether the submission reports a person's decision: whether the
// tree has a route on which an agent is asked for one in a solution of this type.
func noteReport(ctx context.Context, t *turn, k *input.Task, in driver.Input) error {
	t.Reported = false
	s := t.Solution
	if !s.Supplied() || s.Type == "" || !input.Of(in.Kind).Approves || plan.TakesNoReport(t.State, k, in) {
		return nil
	}
	facts := plan.Facts(t.State, k, in.ID)
	facts.Previous = nil
	for d := t.Tree.Decide(in.Kind, facts); d.Route != nil; d = t.Tree.Decide(in.Kind, facts) {
		r := *d.Route
		desc, _, _ := t.setup.Drivers.Describe(r.Via)
		if drv, ok := t.setup.Drivers.Capability(r.Via, r.CallTimeout); ok && desc.Has(driver.FeatureAgent) {
			shown, err := shownToAgent(ctx, t, drv, r.Via, k, in)
			t.Reported = err == nil && shown.Type == s.Type
			return err
		}
		facts.Previous = append(facts.Previous, decision.PreviousFacts{Via: r.Via, Outcome: decision.Unavailable, Route: r.Index})
	}
	return nil
}
