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

// approvals deals with the approval of the open step.
type approvals struct{ t *turn }

// noteApproval lets the reply say that the step is approved, if it is.
func (ap *approvals) noteApproval() {
	if plan.ApprovalGiven(ap.t.State) {
		ap.t.Note = fmt.Sprintf("Step %d is approved.", ap.t.Run.Step.Index)
	}
}

// lapse says so, in the reply and in the record, where the yes to the open step
// has become too old to be used.
func (ap *approvals) lapse() error {
	a := ap.t.Run.Step.Approval
	if a == nil || !a.Expired(ap.t.e.opt.Clock.Now()) {
		return nil
	}
	why := fmt.Sprintf("The approval of %s lapsed after %s, and a person is asked again.",
		a.GrantedAt.UTC().Format(time.RFC3339), a.ExpiresAt.Sub(a.GrantedAt))
	ap.t.Note = plain.Sentences(ap.t.Note, why)
	return ap.t.apply(run.Event{Kind: run.Lapsed, Input: input.ApprovalKind.Name, Via: a.Via, Reason: why})
}

// leaveToReview records that the client's own review of the evidence request
// is the approval.
func (ap *approvals) leaveToReview(ctx context.Context, r decision.Route) error {
	desc, _, _ := ap.t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return ap.t.obtaining.closeRoute(ctx, input.ApprovalKind.Name, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0)
	}
	// The review and the request that is reviewed are one question. If it waited for the next call, that
	// would ask all over again what failed in this one, and no later route would be reached.
	ap.t.Asked = plan.Subject{}
	return ap.t.apply(run.Event{
		Kind: run.Supplied, Input: input.ApprovalKind.Name, Via: r.Via,
		// Nobody vouches for anything yet: the client has still to see the request.
		Approval: plan.NewApproval(ap.t.State, r, "", run.BasisReview),
	})
}

// approved shows the step again, with a new nonce, now that it may be worked on.
func (ap *approvals) approved(ctx context.Context) (Round, error) {
	if err := ap.t.remembered.approve(ap.t.Run.Step.Approval); err != nil {
		return Round{}, err
	}
	if err := ap.t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(ap.t.Run.ID)}); err != nil {
		return Round{}, err
	}
	ap.t.taken()
	ap.t.Note = plain.Sentences(ap.t.Note, fmt.Sprintf("Step %d is approved.", ap.t.Run.Step.Index))
	if ap.t.Run.Step.Early != nil {
		ap.t.Note = plain.Sentences(ap.t.Note, plan.Uncounted)
	}
	// The work was approved just now, so what was submitted before is not it.
	ap.t.Solution, ap.t.Target = nil, 0
	return ap.t.replies.presentOpen(ctx)
}

// tooEarly records that work was submitted for a step that nobody has approved.
// The same submission again is not recorded again.
func (ap *approvals) tooEarly() error {
	s := ap.t.Solution
	if !s.Supplied() || ap.t.Reported || ap.t.Run.Step.Early != nil && ap.t.Run.Step.Early.Digest == s.Payload {
		return nil
	}
	ev := run.Event{Kind: run.Premature, Input: input.EvidenceKind.Name, Digest: s.Payload}
	if work := plan.OrRaw(s.Params, s.Evidence); len(work) <= plan.MaxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: work, Provenance: driver.AgentReported}
	}
	// The walk through the tree belongs to what happens next.
	walk := ap.t.decided
	ap.t.decided = nil
	err := ap.t.apply(ev)
	ap.t.decided = walk
	return err
}

// noteReport finds out whether the submission reports a person's decision: whether the
// tree has a route on which an agent is asked for one in a solution of this type.
func (ap *approvals) noteReport(ctx context.Context, k input.Task, in driver.Input) error {
	ap.t.Reported = false
	s := ap.t.Solution
	if !s.Supplied() || s.Type == "" || !input.Of(in.Kind).Approves || plan.TakesNoReport(ap.t.State, k, in) {
		return nil
	}
	facts := plan.Facts(ap.t.State, k, in.ID)
	facts.Previous = nil
	for d := ap.t.e.Tree.Decide(in.Kind, facts); d.Route != nil; d = ap.t.e.Tree.Decide(in.Kind, facts) {
		r := *d.Route
		desc, _, _ := ap.t.e.Drivers.Describe(r.Via)
		if drv, ok := ap.t.e.Drivers.Capability(r.Via, r.CallTimeout); ok && desc.Has(driver.FeatureAgent) {
			shown, err := ap.t.obtaining.shownToAgent(ctx, drv, r.Via, k, in)
			ap.t.Reported = err == nil && shown.Type == s.Type
			return err
		}
		facts.Previous = append(facts.Previous, decision.PreviousFacts{Via: r.Via, Outcome: decision.Unavailable, Route: r.Index})
	}
	return nil
}

// takeApproval makes a person's approval the answer that the step asks for.
func (ap *approvals) takeApproval(in driver.Input, a *driver.Answer) error {
	return ap.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: a.Via, Answer: a, Reason: in.Description})
}

// distrust ends the run's approval and its link if the clock was set back since
// the run was last changed: nobody can tell how old they are.
func (ap *approvals) distrust() error {
	a, q := ap.t.Run.Step.Approval, ap.t.Run.Step.Question
	linked := q != nil && q.Link != nil
	if !ap.t.Run.State.Live() || a == nil && !linked || !ap.t.e.runs.SetBack(ap.t.Run.ChangedAt()) {
		return nil
	}
	ev := run.Event{Kind: run.Lapsed, Input: input.ApprovalKind.Name, Reason: "The server's clock was set back, so nobody can tell how old the link of the approval is. A new one is made."}
	if a != nil {
		ev.Via = a.Via
		ev.Reason = fmt.Sprintf("The approval of %s lapsed because the server's clock was set back and nobody can tell how old it is. A person is asked again.",
			a.GrantedAt.UTC().Format(time.RFC3339))
		ap.t.Note = plain.Sentences(ap.t.Note, ev.Reason)
	}
	return ap.t.apply(ev)
}
