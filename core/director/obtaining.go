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

// obtainRunInput asks the person, where the tree and the client allow it.
func obtainRunInput(ctx context.Context, t *turn, in driver.Input, missing []string) (Round, error) {
	k := input.RunTask(t.Chain)
	d := decideRoute(t, k, in)
	if d.Route == nil || t.Caller.Detached {
		return Round{}, input.MissingOfRun(*t.Run, t.Chain, missing)
	}
	if why := plan.Barred(t.State, in, d.Route.Via); why != "" {
		return Round{}, passOver(ctx, t, in.ID, *d.Route, why)
	}
	desc, _, ok := t.e.Drivers.Describe(d.Route.Via)
	if !ok || !desc.Has(driver.FeatureHuman) {
		return Round{}, passOver(ctx, t, in.ID, *d.Route, "only a person can be asked for a run's input")
	}
	return viaClient(ctx, t, k, in, *d.Route, desc)
}

// answerSimilarity answers how close two texts are, without a callback from
// the driver that wants to know.
func answerSimilarity(ctx context.Context, t *turn, in driver.Input) error {
	value := driver.SimilarityValue{Method: library.MethodLexical}
	if in.Similarity != nil {
		value = t.e.Similarity(access.InSpace(ctx, t.Run.Space), *in.Similarity)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: b, Provenance: driver.ServerObserved, Via: runs.CoreDriver,
	}})
}

// obtain tries the due input's next route.
func obtain(ctx context.Context, t *turn, k input.Task, in driver.Input) (Round, error) {
	kind := input.Of(in.Kind)
	if kind.Internal {
		return Round{}, answerSimilarity(ctx, t, in)
	}
	if kind.Approves {
		if err := errors.Join(lapse(t), loadDecline(ctx, t)); err != nil {
			return Round{}, err
		}
	}
	beginRoute(t, in.ID, t.change.Now())
	t.Due = in.Kind
	if plan.IsClaim(t.State, k, in) {
		return refuseClaim(ctx, t, k)
	}
	if err := noteReport(ctx, t, k, in); err != nil {
		return Round{}, err
	}
	d := decideRoute(t, k, in)
	switch {
	case d.Route != nil:
		t.Trying = d.Route.Via
		return through(ctx, t, k, in, *d.Route)
	case kind.Judges:
		return Round{}, unjudged(t, k)
	}
	if by, no := t.Run.Step.Declines[in.ID]; no && t.Solution.Supplied() {
		return refuse(ctx, t, fault.UserDeclined, plan.DeclinedFor(t.State, by).Message)
	}
	return Round{}, noRoute(ctx, t, k, in)
}

// through obtains the input through the route that the tree chose, unless it is
// not meant for the input as it is now.
func through(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route) (Round, error) {
	desc, _, known := t.e.Drivers.Describe(r.Via)
	if why := cmp.Or(plan.Barred(t.State, in, r.Via), plan.CannotCount(t.State, k, in, r.Via), plan.CannotDecide(t.State, k, in, r.Via)); why != "" {
		return Round{}, passOver(ctx, t, in.ID, r, why)
	}
	if round, done, err := prepare(ctx, t, k, in, r, desc); done || err != nil {
		return round, err
	}
	kind, byReport := input.Of(in.Kind), !plan.TakesNoReport(t.State, k, in)
	if kind.Approves && byReport {
		if err := loadDecline(ctx, t); err != nil {
			return Round{}, err
		}
		if why := plan.Bars(t.State, in, desc); why != "" {
			return Round{}, passOver(ctx, t, in.ID, r, why)
		}
	}
	if kind.Approves && byReport && !desc.Has(driver.FeatureAgent) {
		if err := tooEarly(t); err != nil {
			return Round{}, err
		}
		in = plan.ApprovalQuestion(t.State, k, plan.GatedInput(t.State))
	}
	if round, done, err := declined(ctx, t, k, in, r, desc); done || err != nil {
		return round, err
	}
	switch {
	case !byReport && t.Solution.Supplied():
		return refuse(ctx, t, fault.EvidenceNotAccepted, plan.NotByReport)
	case !byReport && !desc.Has(driver.FeatureHuman):
		return Round{}, passOver(ctx, t, in.ID, r, "only a person's own answer counts")
	}
	if a := t.Run.Step.Approval; a != nil && a.ClientReview && kind.Evidence && a.Via != r.Via {
		// The evidence will not pass the review that was to approve it, which is
		// decided on anew.
		t.decided = nil
		return Round{}, passOver(ctx, t, input.ApprovalKind.Name, decision.Route{Index: a.Route, Via: a.Via}, "the evidence comes through "+r.Via)
	}
	review := kind.Approves && desc.Has(driver.FeatureClientReview)
	switch {
	case kind.Approves && (review || slices.Contains(desc.Needs, driver.NeedApprovalPage)) && plan.AnsweredUnusably(t.State, in.ID):
		return Round{}, passOver(ctx, t, in.ID, r, "the person was asked by form, and neither a link nor a review takes the place of their answer")
	case !known:
		return Round{}, closeRoute(ctx, t, in.ID, r, decision.Unavailable, "driver is not configured", 0)
	case review && !plan.EvidenceComesThrough(t.State, k, r.Via):
		return Round{}, passOver(ctx, t, in.ID, r, "the evidence does not come through it, so there is nothing to review")
	case review && plan.PhraseOf(t.State, k) != "":
		return Round{}, passOver(ctx, t, in.ID, r, "a phrase has to be typed, which no review does")
	case desc.Has(driver.FeatureAgent):
		return viaAgent(ctx, t, k, in, r)
	}
	return viaClient(ctx, t, k, in, r, desc)
}

// declined keeps the route from getting around a person who declined the input,
// and reports whether it did.
func declined(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, bool, error) {
	approves, supplied := input.Of(in.Kind).Approves, t.Solution.Supplied()
	// Work that comes after the decline is not what asks the person again.
	despite := approves && supplied && !desc.Has(driver.FeatureAgent)
	by, no := t.Run.Step.Declines[in.ID]
	if !no || by == r.Via && !despite {
		return Round{}, false, nil
	}
	if approves && !supplied {
		// Perhaps a later route is the one that leads to the person.
		return Round{}, true, passOver(ctx, t, in.ID, r, "a person declined through "+by)
	}
	why := fmt.Sprintf("A person declined this step through %s, and only the person can take that back, in the same way.", by)
	if supplied {
		round, err := refuse(ctx, t, fault.UserDeclined, why)
		return round, true, err
	}
	return Round{}, true, fault.New(fault.UserDeclined, "%s", why).WithNext("%s", plan.AskAgain(t.State, k))
}

func decideRoute(t *turn, k input.Task, in driver.Input) decision.Decision {
	facts := plan.Facts(t.State, k, in.ID)
	d := t.e.Tree.Decide(in.Kind, facts)
	t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// noRoute: the tree has nothing left for the input.
func noRoute(ctx context.Context, t *turn, k input.Task, in driver.Input) error {
	if by, no := t.Run.Step.Declines[in.ID]; no {
		return plan.DeclinedFor(t.State, by)
	}
	if d := t.Decline; input.Of(in.Kind).Approves && d != nil && plan.Served(t.State) {
		return fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(plan.Said(t.State),
			"Only a person can approve what a person declined"+plan.Troubles(t.State, in.ID),
			plan.NoLinkGiven, plan.WayBack(t.State)))
	}
	if plan.TakesNoReport(t.State, k, in) {
		return fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(plan.NotByReport,
			fmt.Sprintf("Nobody can be asked through this client%s", plan.Troubles(t.State, in.ID)), plan.NoLink(t.State, k)))
	}
	if k.Demand.Provenances != nil && input.Of(in.Kind).Evidence {
		return nobody(ctx, t, in)
	}
	if none := input.Of(in.Kind).NoRoute; none != nil {
		return none(t.Run.Step.Index, plan.Troubles(t.State, in.ID))
	}
	if plan.Exhausted(t.State, in.ID) {
		return fault.New(fault.SamplingBudgetExceeded, "No route is left to obtain %q of step %d%s", in.ID, t.Run.Step.Index, plan.Troubles(t.State, in.ID))
	}
	return plan.Unavailable("no route is left to obtain %q of step %d%s", in.ID, t.Run.Step.Index, plan.Troubles(t.State, in.ID))
}

// closeRoute is done with a route that gave no answer. Its error is the stop
// that the tree may want then.
func closeRoute(ctx context.Context, t *turn, inputID string, r decision.Route, o decision.Outcome, reason string, seq int64) error {
	a := plan.AttemptAt(t.State, inputID, r, o, reason)
	if err := leaveRoute(ctx, t, a, reason, seq); err != nil {
		return err
	}
	if plan.Reaction(t.State, a) == decision.Stop {
		return plan.Stopped(t.State, a)
	}
	return nil
}

// passOver leaves a route that is not meant for the input as it is now. It was
// not tried, so nothing follows from it.
func passOver(ctx context.Context, t *turn, inputID string, r decision.Route, reason string) error {
	a := plan.AttemptAt(t.State, inputID, r, decision.Unavailable, reason)
	a.Untried = true
	return leaveRoute(ctx, t, a, reason, 0)
}

func leaveRoute(ctx context.Context, t *turn, a run.Attempt, reason string, seq int64) error {
	t.e.log.DebugContext(ctx, "route closed", "run", t.Run.ID, "step", t.Run.Step.Index, "input", a.Input, "via", a.Via, "outcome", a.Outcome, "reason", a.Reason)
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: reason, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return t.apply(ev)
}

// supply takes an answer that needed no question.
func supply(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = in.ID, r.Via
	if problem := plan.Doubt(t.State, in, a, r.Via); problem != "" {
		return Round{}, closeRoute(ctx, t, in.ID, r, decision.Errored, problem, 0)
	}
	phrase := plan.PhraseIn(t.State, k, in)
	to, err := settlement(ctx, t, k, in, phrase, false, a)
	switch {
	case err != nil:
		return Round{}, err
	case to.Declined:
		return decline(ctx, t, in, r.Via, "not approved", 0)
	case to.Unusable != "":
		return Round{}, closeRoute(ctx, t, in.ID, r, decision.Errored, to.Unusable, 0)
	case to.Refused != "":
		if err := settleCall(t, to.Refused); err != nil {
			return Round{}, err
		}
		return refuse(ctx, t, fault.MissingField, to.Refused)
	}
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a}
	if input.Of(in.Kind).Approves {
		ev.Approval = plan.NewApproval(t.State, r, a.Provenance, input.BasisOf(a))
		ev.Approval.Typed = phrase != ""
		ev.Reason = in.Description
	}
	if err := t.apply(ev); err != nil {
		return Round{}, err
	}
	return settled(ctx, t, in, a)
}

// settlement is what the answer comes to by the kind of its input.
func settlement(ctx context.Context, t *turn, k input.Task, in driver.Input, phrase string, asked bool, a driver.Answer) (input.Settlement, error) {
	kind := input.Of(in.Kind)
	if kind.Settle == nil {
		return input.Settlement{}, nil
	}
	if kind.Check != nil {
		var err error
		if k, err = t.open(ctx); err != nil {
			return input.Settlement{}, err
		}
	}
	return kind.Settle(k, input.Setting{Run: *t.Run, Chain: t.Chain, Phrase: phrase, Asked: asked}, a)
}

// settled continues with an answer that is recorded now. What is not as the step
// demands makes the whole step wrong, unless it passes anyway.
func settled(ctx context.Context, t *turn, in driver.Input, a driver.Answer) (Round, error) {
	kind := input.Of(in.Kind)
	if kind.OfRun && !kind.Optional {
		t.offerReady = true // the steps can be shown with what is known now
	}
	if kind.Approves {
		return approved(ctx, t)
	}
	if kind.Check == nil {
		return Round{}, moreDue(t)
	}
	k, err := t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	why, err := kind.Check(k, a)
	if err != nil {
		return Round{}, err
	}
	if why != "" && k.Common.IsRequired() {
		return reject(ctx, t, kind.Mismatch, why)
	}
	return Round{}, moreDue(t)
}

// moreDue gives the step a new nonce when it needs another input besides the
// one that was answered just now, which is then shown, not missed.
func moreDue(t *turn) error {
	if !slices.ContainsFunc(t.Run.Step.Inputs, func(in driver.Input) bool { return !input.Of(in.Kind).Internal }) {
		return nil
	}
	return setAside(t)
}

// setAside is done with the submission, whose nonce can then not be used for
// what the step needs next.
func setAside(t *turn) error {
	t.taken()
	t.Solution, t.Target = nil, 0
	return t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID)})
}
