package director

import (
	"context"
	"fmt"
	"time"

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

// lapse says so, in the reply and in the record, where the yes to the open step
// has become too old to be used.
func lapse(t *turn) error {
	a := t.Run.Step.Approval
	if a == nil || !a.Expired(t.e.opt.Clock.Now()) {
		return nil
	}
	why := fmt.Sprintf("The approval of %s lapsed after %s, and a person is asked again.",
		a.GrantedAt.UTC().Format(time.RFC3339), a.ExpiresAt.Sub(a.GrantedAt))
	t.Note = plain.Sentences(t.Note, why)
	return t.apply(run.Event{Kind: run.Lapsed, Input: input.ApprovalKind.Name, Via: a.Via, Reason: why})
}

// leaveToReview records that the client's own review of the evidence request
// is the approval.
func leaveToReview(ctx context.Context, t *turn, r decision.Route) error {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return closeRoute(ctx, t, input.ApprovalKind.Name, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0)
	}
	// The review and the request that is reviewed are one question. If it waited for the next call, that
	// would ask all over again what failed in this one, and no later route would be reached.
	t.Asked = plan.Subject{}
	return t.apply(run.Event{
		Kind: run.Supplied, Input: input.ApprovalKind.Name, Via: r.Via,
		// Nobody vouches for anything yet: the client has still to see the request.
		Approval: plan.NewApproval(t.State, r, "", run.BasisReview),
	})
}

// approved shows the step again, with a new nonce, now that it may be worked on.
func approved(ctx context.Context, t *turn) (Round, error) {
	if err := noteApproved(t, t.Run.Step.Approval); err != nil {
		return Round{}, err
	}
	if err := t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID)}); err != nil {
		return Round{}, err
	}
	t.taken()
	t.Note = plain.Sentences(t.Note, fmt.Sprintf("Step %d is approved.", t.Run.Step.Index))
	if t.Run.Step.Early != nil {
		t.Note = plain.Sentences(t.Note, plan.Uncounted)
	}
	// The work was approved just now, so what was submitted before is not it.
	t.Solution, t.Target = nil, 0
	return presentOpen(ctx, t)
}

// tooEarly records that work was submitted for a step that nobody has approved.
// The same submission again is not recorded again.
func tooEarly(t *turn) error {
	s := t.Solution
	if !s.Supplied() || t.Reported || t.Run.Step.Early != nil && t.Run.Step.Early.Digest == s.Payload {
		return nil
	}
	ev := run.Event{Kind: run.Premature, Input: input.EvidenceKind.Name, Digest: s.Payload}
	if work := plan.OrRaw(s.Params, s.Evidence); len(work) <= plan.MaxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: work, Provenance: driver.AgentReported}
	}
	// The walk through the tree belongs to what happens next.
	walk := t.decided
	t.decided = nil
	err := t.apply(ev)
	t.decided = walk
	return err
}

// noteReport finds out whether the submission reports a person's decision: whether the
// tree has a route on which an agent is asked for one in a solution of this type.
func noteReport(ctx context.Context, t *turn, k input.Task, in driver.Input) error {
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

// takeApproval makes a person's approval the answer that the step asks for.
func takeApproval(t *turn, in driver.Input, a *driver.Answer) error {
	return t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: a.Via, Answer: a, Reason: in.Description})
}

// distrust ends the run's approval and its link if the clock was set back since
// the run was last changed: nobody can tell how old they are.
func distrust(t *turn) error {
	a, q := t.Run.Step.Approval, t.Run.Step.Question
	linked := q != nil && q.Link != nil
	if !t.Run.State.Live() || a == nil && !linked || !t.e.runs.SetBack(t.Run.ChangedAt()) {
		return nil
	}
	ev := run.Event{Kind: run.Lapsed, Input: input.ApprovalKind.Name, Reason: "The server's clock was set back, so nobody can tell how old the link of the approval is. A new one is made."}
	if a != nil {
		ev.Via = a.Via
		ev.Reason = fmt.Sprintf("The approval of %s lapsed because the server's clock was set back and nobody can tell how old it is. A person is asked again.",
			a.GrantedAt.UTC().Format(time.RFC3339))
		t.Note = plain.Sentences(t.Note, ev.Reason)
	}
	return t.apply(ev)
}
