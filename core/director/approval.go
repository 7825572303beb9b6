package director

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// approvals deals with the approval of the open step.
type approvals struct {
	t *turn
	// reported: the submission is the agent's report of a person's decision, in the form
	// in which a route of the tree asks for it, and not work.
	reported bool
}

// approvalGiven: a person approved the open step on its page, and it still holds.
func (ap *approvals) approvalGiven() bool {
	a := ap.t.Run.Step.Approval
	return a != nil && (a.Basis == run.BasisLink || a.Basis == run.BasisPage) && ap.approvalStands()
}

// noteApproval lets the reply say that the step is approved, if it is.
func (ap *approvals) noteApproval() {
	if ap.approvalGiven() {
		ap.t.replies.note = fmt.Sprintf("Step %d is approved.", ap.t.Run.Step.Index)
	}
}

// phraseIn is phraseOf for an approval, and nothing for any other input.
func (ap *approvals) phraseIn(k input.Task, in driver.Input) string {
	if !input.Of(in.Kind).Approves {
		return ""
	}
	return ap.phraseOf(k)
}

// phraseOf is what has to be typed to approve the step; empty: nothing.
func (ap *approvals) phraseOf(k input.Task) string {
	switch {
	case k.Common.ApprovalPhrase != "":
		return k.Common.ApprovalPhrase
	case ap.t.e.Settings.Approval.Typed:
		return k.Step.Name
	}
	return ""
}

func (ap *approvals) approvalStands() bool {
	a := ap.t.Run.Step.Approval
	return a != nil && ap.t.Run.Step.Approved(a.Via, run.Event{At: ap.t.e.opt.Clock.Now()})
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
	ap.t.replies.note = plain.Sentences(ap.t.replies.note, why)
	return ap.t.apply(run.Event{Kind: run.Lapsed, Input: input.ApprovalKind.Name, Via: a.Via, Reason: why})
}

// evidenceComesThrough looks ahead: a review can only approve what it will see.
func (ap *approvals) evidenceComesThrough(k input.Task, via string) bool {
	d := ap.t.e.Tree.Decide(input.EvidenceKind.Name, ap.t.facts(k, input.EvidenceKind.Name))
	return d.Route != nil && d.Route.Via == via
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
	ap.t.questions.asked = subject{}
	return ap.t.apply(run.Event{
		Kind: run.Supplied, Input: input.ApprovalKind.Name, Via: r.Via,
		// Nobody vouches for anything yet: the client has still to see the request.
		Approval: ap.approval(r, "", run.BasisReview),
	})
}

func (ap *approvals) approval(r decision.Route, p driver.Provenance, basis run.Basis) *run.Approval {
	now := ap.t.e.opt.Clock.Now()
	return &run.Approval{
		Digest: ap.t.Run.Step.Digest, Via: r.Via, Route: r.Index, Provenance: p, ClientReview: basis == run.BasisReview, Basis: basis,
		GrantedAt: now, ExpiresAt: now.Add(ap.t.e.opt.ApprovalTTL), Premature: ap.earlyTimes(),
	}
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
	ap.t.replies.note = plain.Sentences(ap.t.replies.note, fmt.Sprintf("Step %d is approved.", ap.t.Run.Step.Index))
	if ap.t.Run.Step.Early != nil {
		ap.t.replies.note = plain.Sentences(ap.t.replies.note, uncounted)
	}
	// The work was approved just now, so what was submitted before is not it.
	ap.t.solution, ap.t.target = nil, 0
	return ap.t.replies.presentOpen(ctx)
}

// tooEarly records that work was submitted for a step that nobody has approved.
// The same submission again is not recorded again.
func (ap *approvals) tooEarly() error {
	s := ap.t.solution
	if !s.supplied() || ap.reported || ap.t.Run.Step.Early != nil && ap.t.Run.Step.Early.Digest == s.payload {
		return nil
	}
	ev := run.Event{Kind: run.Premature, Input: input.EvidenceKind.Name, Digest: s.payload}
	if work := orRaw(s.params, s.Evidence); len(work) <= maxEarly {
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
	ap.reported = false
	s := ap.t.solution
	if !s.supplied() || s.Type == "" || !input.Of(in.Kind).Approves || ap.takesNoReport(k, in) {
		return nil
	}
	facts := ap.t.facts(k, in.ID)
	facts.Previous = nil
	for d := ap.t.e.Tree.Decide(in.Kind, facts); d.Route != nil; d = ap.t.e.Tree.Decide(in.Kind, facts) {
		r := *d.Route
		desc, _, _ := ap.t.e.Drivers.Describe(r.Via)
		if drv, ok := ap.t.e.Drivers.Capability(r.Via, r.CallTimeout); ok && desc.Has(driver.FeatureAgent) {
			shown, err := ap.t.obtaining.shownToAgent(ctx, drv, r.Via, k, in)
			ap.reported = err == nil && shown.Type == s.Type
			return err
		}
		facts.Previous = append(facts.Previous, decision.PreviousFacts{Via: r.Via, Outcome: decision.Unavailable, Route: r.Index})
	}
	return nil
}

// gatedInput is the input that the approval stands in front of.
func (ap *approvals) gatedInput() driver.Input {
	for _, in := range ap.t.Run.Step.Inputs {
		if !input.Of(in.Kind).Ungated {
			return in
		}
	}
	return driver.Input{}
}

func (ap *approvals) earlyTimes() int {
	if ap.t.Run.Step.Early == nil {
		return 0
	}
	return ap.t.Run.Step.Early.Times
}

// question is the approval of an input as it is asked for now.
func (ap *approvals) question(k input.Task, evidence driver.Input) driver.Input {
	return input.Approval(k, ap.asked(k, evidence))
}

// shortQuestion is question for a client that fails at the whole.
func (ap *approvals) shortQuestion(k input.Task, evidence driver.Input) driver.Input {
	q := ap.asked(k, evidence)
	q.Short = true
	return input.Approval(k, q)
}

func (ap *approvals) asked(k input.Task, evidence driver.Input) input.ApprovalQuestion {
	return input.ApprovalQuestion{
		Evidence: evidence, Digest: ap.t.Run.Step.Digest, Phrase: ap.phraseOf(k), Early: ap.t.Run.Step.Early, Done: ap.t.Run.Step.Done, Plan: ap.t.Run.Step.Plan, Own: ap.t.trust.ownAnswer(k, evidence),
		Declined: ap.t.remembered.said(),
	}
}

// takesNoReport is ownAnswer for the step's evidence and for the approval in
// front of it, which then is the answer.
func (ap *approvals) takesNoReport(k input.Task, in driver.Input) bool {
	switch kind := input.Of(in.Kind); {
	case kind.Evidence:
		return ap.t.trust.ownAnswer(k, in)
	case kind.Approves:
		for _, behind := range ap.t.Run.Step.Inputs {
			if ap.t.trust.ownAnswer(k, behind) {
				return true
			}
		}
	}
	return false
}

// gated reports whether an approval stands in front of the input. One in front of
// a person's own answer would be noise, unless it can be that answer itself.
func (ap *approvals) gated(k input.Task, in driver.Input) (bool, error) {
	switch {
	case k.Approval != driver.ApprovalUser:
		return false, nil
	case !ap.t.trust.personal(k, in), ap.t.trust.ownAnswer(k, in) && input.YesOrNo(in):
		return true, nil
	case k.Common.ApprovalPhrase != "":
		return false, fault.New(fault.InvalidArgument, "The protocol is at fault: nobody can type the approval_phrase of step %d into the form that it asks for. "+
			"Mint it again without the phrase, or as a question for yes or no.", k.Where.Index)
	}
	return false, nil
}

// approvedAnswer is what a person has answered to the input by approving; nil:
// they have not, or it asks for more.
func (ap *approvals) approvedAnswer(k input.Task, in driver.Input) *driver.Answer {
	if !ap.t.Run.Step.Gated || !ap.approvalStands() || !ap.t.trust.ownAnswer(k, in) || !input.YesOrNo(in) {
		return nil
	}
	a := ap.t.Run.Step.Approval
	return &driver.Answer{
		InputID: in.ID, Value: json.RawMessage(`{"confirmation":"` + input.SaidApproved + `"}`), Provenance: a.Provenance, Via: a.Via,
	}
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
		ap.t.replies.note = plain.Sentences(ap.t.replies.note, ev.Reason)
	}
	return ap.t.apply(ev)
}

// maxEarly bounds what is kept of work that came too early, in bytes.
const maxEarly = 64 << 10

func orRaw(raw, other json.RawMessage) json.RawMessage {
	if says(raw) {
		return raw
	}
	return other
}

// notByReport says why nobody but the person may answer.
const notByReport = "This step takes only a person's own answer, given to the server itself. Do not answer for them and do not pass their answer on"
