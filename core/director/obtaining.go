package director

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// obtaining obtains the inputs of the open step, one after the other.
type obtaining struct{ t *turn }

// obtainRunInput asks the person, where the tree and the client allow it.
func (ob *obtaining) obtainRunInput(ctx context.Context, in driver.Input, missing []string) (Round, error) {
	k := input.RunTask(ob.t.Chain)
	d := ob.decide(k, in)
	if d.Route == nil || ob.t.Caller.Detached {
		return Round{}, input.MissingOfRun(*ob.t.Run, ob.t.Chain, missing)
	}
	if why := plan.Barred(ob.t.State, in, d.Route.Via); why != "" {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, why)
	}
	desc, _, ok := ob.t.e.Drivers.Describe(d.Route.Via)
	if !ok || !desc.Has(driver.FeatureHuman) {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, "only a person can be asked for a run's input")
	}
	return ob.t.questions.viaClient(ctx, k, in, *d.Route, desc)
}

// answerSimilarity answers how close two texts are, without a callback from
// the driver that wants to know.
func (ob *obtaining) answerSimilarity(ctx context.Context, in driver.Input) error {
	value := driver.SimilarityValue{Method: library.MethodLexical}
	if in.Similarity != nil {
		value = ob.t.e.Similarity(access.InSpace(ctx, ob.t.Run.Space), *in.Similarity)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return ob.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: b, Provenance: driver.ServerObserved, Via: runs.CoreDriver,
	}})
}

// obtain tries the due input's next route.
func (ob *obtaining) obtain(ctx context.Context, k input.Task, in driver.Input) (Round, error) {
	kind := input.Of(in.Kind)
	if kind.Internal {
		return Round{}, ob.answerSimilarity(ctx, in)
	}
	if kind.Approves {
		if err := errors.Join(ob.t.approvals.lapse(), ob.t.remembered.load(ctx)); err != nil {
			return Round{}, err
		}
	}
	ob.t.observation.begin(in.ID, ob.t.change.Now())
	ob.t.Due = in.Kind
	if plan.IsClaim(ob.t.State, k, in) {
		return ob.t.vouching.refuse(ctx, k)
	}
	if err := ob.t.approvals.noteReport(ctx, k, in); err != nil {
		return Round{}, err
	}
	d := ob.decide(k, in)
	switch {
	case d.Route != nil:
		ob.t.Trying = d.Route.Via
		return ob.through(ctx, k, in, *d.Route)
	case kind.Judges:
		return Round{}, ob.t.verdicts.unjudged(k)
	}
	if by, no := ob.t.Run.Step.Declines[in.ID]; no && ob.t.Solution.Supplied() {
		return ob.t.replies.refuse(ctx, fault.UserDeclined, plan.DeclinedFor(ob.t.State, by).Message)
	}
	return Round{}, ob.noRoute(ctx, k, in)
}

// through obtains the input through the route that the tree chose, unless it is
// not meant for the input as it is now.
func (ob *obtaining) through(ctx context.Context, k input.Task, in driver.Input, r decision.Route) (Round, error) {
	desc, _, known := ob.t.e.Drivers.Describe(r.Via)
	if why := cmp.Or(plan.Barred(ob.t.State, in, r.Via), plan.CannotCount(ob.t.State, k, in, r.Via), plan.CannotDecide(ob.t.State, k, in, r.Via)); why != "" {
		return Round{}, ob.passOver(ctx, in.ID, r, why)
	}
	if round, done, err := ob.t.granting.prepare(ctx, k, in, r, desc); done || err != nil {
		return round, err
	}
	kind, byReport := input.Of(in.Kind), !plan.TakesNoReport(ob.t.State, k, in)
	if kind.Approves && byReport {
		if err := ob.t.remembered.load(ctx); err != nil {
			return Round{}, err
		}
		if why := plan.Bars(ob.t.State, in, desc); why != "" {
			return Round{}, ob.passOver(ctx, in.ID, r, why)
		}
	}
	if kind.Approves && byReport && !desc.Has(driver.FeatureAgent) {
		if err := ob.t.approvals.tooEarly(); err != nil {
			return Round{}, err
		}
		in = plan.ApprovalQuestion(ob.t.State, k, plan.GatedInput(ob.t.State))
	}
	if round, done, err := ob.declined(ctx, k, in, r, desc); done || err != nil {
		return round, err
	}
	switch {
	case !byReport && ob.t.Solution.Supplied():
		return ob.t.replies.refuse(ctx, fault.EvidenceNotAccepted, plan.NotByReport)
	case !byReport && !desc.Has(driver.FeatureHuman):
		return Round{}, ob.passOver(ctx, in.ID, r, "only a person's own answer counts")
	}
	if a := ob.t.Run.Step.Approval; a != nil && a.ClientReview && kind.Evidence && a.Via != r.Via {
		// The evidence will not pass the review that was to approve it, which is
		// decided on anew.
		ob.t.decided = nil
		return Round{}, ob.passOver(ctx, input.ApprovalKind.Name, decision.Route{Index: a.Route, Via: a.Via}, "the evidence comes through "+r.Via)
	}
	review := kind.Approves && desc.Has(driver.FeatureClientReview)
	switch {
	case kind.Approves && (review || slices.Contains(desc.Needs, driver.NeedApprovalPage)) && plan.AnsweredUnusably(ob.t.State, in.ID):
		return Round{}, ob.passOver(ctx, in.ID, r, "the person was asked by form, and neither a link nor a review takes the place of their answer")
	case !known:
		return Round{}, ob.closeRoute(ctx, in.ID, r, decision.Unavailable, "driver is not configured", 0)
	case review && !plan.EvidenceComesThrough(ob.t.State, k, r.Via):
		return Round{}, ob.passOver(ctx, in.ID, r, "the evidence does not come through it, so there is nothing to review")
	case review && plan.PhraseOf(ob.t.State, k) != "":
		return Round{}, ob.passOver(ctx, in.ID, r, "a phrase has to be typed, which no review does")
	case desc.Has(driver.FeatureAgent):
		return ob.viaAgent(ctx, k, in, r)
	}
	return ob.t.questions.viaClient(ctx, k, in, r, desc)
}

// declined keeps the route from getting around a person who declined the input,
// and reports whether it did.
func (ob *obtaining) declined(ctx context.Context, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, bool, error) {
	approves, supplied := input.Of(in.Kind).Approves, ob.t.Solution.Supplied()
	// Work that comes after the decline is not what asks the person again.
	despite := approves && supplied && !desc.Has(driver.FeatureAgent)
	by, no := ob.t.Run.Step.Declines[in.ID]
	if !no || by == r.Via && !despite {
		return Round{}, false, nil
	}
	if approves && !supplied {
		// Perhaps a later route is the one that leads to the person.
		return Round{}, true, ob.passOver(ctx, in.ID, r, "a person declined through "+by)
	}
	why := fmt.Sprintf("A person declined this step through %s, and only the person can take that back, in the same way.", by)
	if supplied {
		round, err := ob.t.replies.refuse(ctx, fault.UserDeclined, why)
		return round, true, err
	}
	return Round{}, true, fault.New(fault.UserDeclined, "%s", why).WithNext("%s", plan.AskAgain(ob.t.State, k))
}

func (ob *obtaining) decide(k input.Task, in driver.Input) decision.Decision {
	facts := plan.Facts(ob.t.State, k, in.ID)
	d := ob.t.e.Tree.Decide(in.Kind, facts)
	ob.t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// noRoute: the tree has nothing left for the input.
func (ob *obtaining) noRoute(ctx context.Context, k input.Task, in driver.Input) error {
	if by, no := ob.t.Run.Step.Declines[in.ID]; no {
		return plan.DeclinedFor(ob.t.State, by)
	}
	if d := ob.t.Decline; input.Of(in.Kind).Approves && d != nil && plan.Served(ob.t.State) {
		return fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(plan.Said(ob.t.State),
			"Only a person can approve what a person declined"+plan.Troubles(ob.t.State, in.ID),
			plan.NoLinkGiven, plan.WayBack(ob.t.State)))
	}
	if plan.TakesNoReport(ob.t.State, k, in) {
		return fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(plan.NotByReport,
			fmt.Sprintf("Nobody can be asked through this client%s", plan.Troubles(ob.t.State, in.ID)), plan.NoLink(ob.t.State, k)))
	}
	if k.Demand.Provenances != nil && input.Of(in.Kind).Evidence {
		return ob.t.vouching.nobody(ctx, in)
	}
	if none := input.Of(in.Kind).NoRoute; none != nil {
		return none(ob.t.Run.Step.Index, plan.Troubles(ob.t.State, in.ID))
	}
	if plan.Exhausted(ob.t.State, in.ID) {
		return fault.New(fault.SamplingBudgetExceeded, "No route is left to obtain %q of step %d%s", in.ID, ob.t.Run.Step.Index, plan.Troubles(ob.t.State, in.ID))
	}
	return plan.Unavailable("no route is left to obtain %q of step %d%s", in.ID, ob.t.Run.Step.Index, plan.Troubles(ob.t.State, in.ID))
}

// closeRoute is done with a route that gave no answer. Its error is the stop
// that the tree may want then.
func (ob *obtaining) closeRoute(ctx context.Context, inputID string, r decision.Route, o decision.Outcome, reason string, seq int64) error {
	a := plan.AttemptAt(ob.t.State, inputID, r, o, reason)
	if err := ob.leaveRoute(ctx, a, reason, seq); err != nil {
		return err
	}
	if plan.Reaction(ob.t.State, a) == decision.Stop {
		return plan.Stopped(ob.t.State, a)
	}
	return nil
}

// passOver leaves a route that is not meant for the input as it is now. It was
// not tried, so nothing follows from it.
func (ob *obtaining) passOver(ctx context.Context, inputID string, r decision.Route, reason string) error {
	a := plan.AttemptAt(ob.t.State, inputID, r, decision.Unavailable, reason)
	a.Untried = true
	return ob.leaveRoute(ctx, a, reason, 0)
}

func (ob *obtaining) leaveRoute(ctx context.Context, a run.Attempt, reason string, seq int64) error {
	ob.t.e.log.DebugContext(ctx, "route closed", "run", ob.t.Run.ID, "step", ob.t.Run.Step.Index, "input", a.Input, "via", a.Via, "outcome", a.Outcome, "reason", a.Reason)
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: reason, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return ob.t.apply(ev)
}

// supply takes an answer that needed no question.
func (ob *obtaining) supply(ctx context.Context, k input.Task, in driver.Input, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = in.ID, r.Via
	if problem := plan.Doubt(ob.t.State, in, a, r.Via); problem != "" {
		return Round{}, ob.closeRoute(ctx, in.ID, r, decision.Errored, problem, 0)
	}
	phrase := plan.PhraseIn(ob.t.State, k, in)
	to, err := ob.settlement(ctx, k, in, phrase, false, a)
	switch {
	case err != nil:
		return Round{}, err
	case to.Declined:
		return ob.t.replies.decline(ctx, in, r.Via, "not approved", 0)
	case to.Unusable != "":
		return Round{}, ob.closeRoute(ctx, in.ID, r, decision.Errored, to.Unusable, 0)
	case to.Refused != "":
		if err := ob.t.calls.settle(to.Refused); err != nil {
			return Round{}, err
		}
		return ob.t.replies.refuse(ctx, fault.MissingField, to.Refused)
	}
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a}
	if input.Of(in.Kind).Approves {
		ev.Approval = plan.NewApproval(ob.t.State, r, a.Provenance, input.BasisOf(a))
		ev.Approval.Typed = phrase != ""
		ev.Reason = in.Description
	}
	if err := ob.t.apply(ev); err != nil {
		return Round{}, err
	}
	return ob.settled(ctx, in, a)
}

// settlement is what the answer comes to by the kind of its input.
func (ob *obtaining) settlement(ctx context.Context, k input.Task, in driver.Input, phrase string, asked bool, a driver.Answer) (input.Settlement, error) {
	kind := input.Of(in.Kind)
	if kind.Settle == nil {
		return input.Settlement{}, nil
	}
	if kind.Check != nil {
		var err error
		if k, err = ob.t.open(ctx); err != nil {
			return input.Settlement{}, err
		}
	}
	return kind.Settle(k, input.Setting{Run: *ob.t.Run, Chain: ob.t.Chain, Phrase: phrase, Asked: asked}, a)
}

// settled continues with an answer that is recorded now. What is not as the step
// demands makes the whole step wrong, unless it passes anyway.
func (ob *obtaining) settled(ctx context.Context, in driver.Input, a driver.Answer) (Round, error) {
	kind := input.Of(in.Kind)
	if kind.OfRun && !kind.Optional {
		ob.t.offering.ready = true // the steps can be shown with what is known now
	}
	if kind.Approves {
		return ob.t.approvals.approved(ctx)
	}
	if kind.Check == nil {
		return Round{}, ob.moreDue()
	}
	k, err := ob.t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	why, err := kind.Check(k, a)
	if err != nil {
		return Round{}, err
	}
	if why != "" && k.Common.IsRequired() {
		return ob.t.replies.reject(ctx, kind.Mismatch, why)
	}
	return Round{}, ob.moreDue()
}

// moreDue gives the step a new nonce when it needs another input besides the
// one that was answered just now, which is then shown, not missed.
func (ob *obtaining) moreDue() error {
	if !slices.ContainsFunc(ob.t.Run.Step.Inputs, func(in driver.Input) bool { return !input.Of(in.Kind).Internal }) {
		return nil
	}
	return ob.setAside()
}

// setAside is done with the submission, whose nonce can then not be used for
// what the step needs next.
func (ob *obtaining) setAside() error {
	ob.t.taken()
	ob.t.Solution, ob.t.Target = nil, 0
	return ob.t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(ob.t.Run.ID)})
}
