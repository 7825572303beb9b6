package director

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// noteApproval lets the reply say that the step is approved, if it is.
func noteApproval(t *turn) {
	if plan.ApprovalGiven(t.State) {
		t.Note = fmt.Sprintf("Step %d is approved.", t.Run.Step.Index)
	}
}

// leaveToReview records that the client's own review of the evidence request
// is the approval.
func leaveToReview(t *turn, r decision.Route) (plan.Action, error) {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return plan.Close(t.State, input.ApprovalKind.Name, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0), nil
	}
	// The review and the request that is reviewed are one question. If it waited for the next call, that
	// would ask all over again what failed in this one, and no later route would be reached.
	t.Asked = plan.Subject{}
	return nil, t.apply(run.Event{
		Kind: run.Supplied, Input: input.ApprovalKind.Name, Via: r.Via,
		// Nobody vouches for anything yet: the client has still to see the request.
		Approval: plan.NewApproval(t.State, r, "", run.BasisReview),
	})
}

// approved shows the step again, with a new nonce, now that it may be worked on.
func approved(t *turn) (plan.Action, error) {
	if err := noteApproved(t, t.Run.Step.Approval); err != nil {
		return nil, err
	}
	if err := t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID)}); err != nil {
		return nil, err
	}
	t.taken()
	t.Note = plain.Sentences(t.Note, fmt.Sprintf("Step %d is approved.", t.Run.Step.Index))
	if t.Run.Step.Early != nil {
		t.Note = plain.Sentences(t.Note, plan.Uncounted)
	}
	// The work was approved just now, so what was submitted before is not it.
	t.Solution, t.Target = nil, 0
	return plan.Show{}, nil
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
	for d := t.e.Tree.Decide(in.Kind, facts); d.Route != nil; d = t.e.Tree.Decide(in.Kind, facts) {
		r := *d.Route
		desc, _, _ := t.e.Drivers.Describe(r.Via)
		if drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout); ok && desc.Has(driver.FeatureAgent) {
			shown, err := shownToAgent(ctx, t, drv, r.Via, k, in)
			t.Reported = err == nil && shown.Type == s.Type
			return err
		}
		facts.Previous = append(facts.Previous, decision.PreviousFacts{Via: r.Via, Outcome: decision.Unavailable, Route: r.Index})
	}
	return nil
}
