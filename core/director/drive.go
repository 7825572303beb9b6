package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxHops bounds one call: far above what any protocol needs, so that a driver
// that never makes up its mind cannot keep a call for ever.
const maxHops = 1000

// drive goes on until somebody is needed: the client (Round.Ask) or the agent
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
	return t.replies.halt(ctx, unavailable("step %d went round %d times without a verdict", t.Run.Step.Index, maxHops))
}

// hop does the next thing that is due. An empty Round means: look again.
func (t *turn) hop(ctx context.Context) (Round, error) {
	if t.complete() {
		return t.replies.completed(ctx)
	}
	if t.Run.Step.Call != nil {
		return t.calls.follow(ctx)
	}
	if in, missing := t.obtaining.runInput(); missing != nil {
		return t.obtaining.obtainRunInput(ctx, in, missing)
	}
	if t.Run.Step.UntoldNo != "" {
		return t.replies.tellNo(ctx)
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
		in := t.obtaining.dueInput(k)
		if a := t.approvals.approvedAnswer(k, in); a != nil {
			return Round{}, t.approvals.takeApproval(in, a)
		}
		return t.obtaining.obtain(ctx, k, in)
	case t.Run.Step.Held != nil:
		return t.verdicts.conclude(ctx, k)
	}
	return t.verdicts.advance(ctx, k)
}

// dueInput is the one input that is open: what the core answers itself, then
// approval, evidence, files.
func (ob *obtaining) dueInput(k task) driver.Input {
	s := ob.t.Run.Step
	for _, in := range s.Inputs {
		if in.Kind == driver.KindSimilarity {
			return in
		}
	}
	for _, in := range s.Inputs {
		// Neither a judgement nor a look at files is part of what a person approved.
		if s.Gated && in.Kind != driver.KindJudge && in.Kind != driver.KindFiles && !ob.t.approvals.approvalStands() {
			return ob.t.approvals.approvalInput(k, in)
		}
	}
	return s.Inputs[0]
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
	return ap.t.apply(run.Event{Kind: run.Lapsed, Input: driver.KindApproval, Via: a.Via, Reason: why})
}

// obtain tries the due input's next route.
func (ob *obtaining) obtain(ctx context.Context, k task, in driver.Input) (Round, error) {
	if in.Kind == driver.KindSimilarity {
		return Round{}, ob.answerSimilarity(ctx, in)
	}
	if in.Kind == driver.KindApproval {
		if err := ob.t.approvals.lapse(); err != nil {
			return Round{}, err
		}
	}
	ob.t.observation.begin(in.ID, ob.t.Now())
	ob.t.observation.due = in.Kind
	d := ob.decide(k, in)
	if d.Route == nil {
		if in.Kind == driver.KindJudge {
			return Round{}, ob.t.verdicts.unjudged(k)
		}
		return Round{}, ob.noRoute(k, in)
	}
	ob.t.observation.trying = d.Route.Via
	desc, _, known := ob.t.e.Drivers.Describe(d.Route.Via)
	if why := ob.t.trust.barred(in, d.Route.Via); why != "" {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, why)
	}
	if in.Kind == driver.KindApproval && !ob.t.approvals.takesNoReport(k, in) && !desc.Has(driver.FeatureAgent) {
		if err := ob.t.approvals.tooEarly(); err != nil {
			return Round{}, err
		}
		in = ob.t.approvals.approvalInput(k, ob.t.approvals.gatedInput())
	}
	// Work that comes after the no is not what asks the person again.
	despite := in.Kind == driver.KindApproval && ob.t.solution.supplied() && !desc.Has(driver.FeatureAgent)
	if by, no := ob.t.Run.Step.Declines[in.ID]; no && (by != d.Route.Via || despite) {
		if in.Kind == driver.KindApproval && !ob.t.solution.supplied() {
			// Perhaps a later route is the one that leads to the person.
			return Round{}, ob.passOver(ctx, in.ID, *d.Route, "a person said no through "+by)
		}
		why := fmt.Sprintf("A person said no to this step through %s, and only the person can take that back, in the same way.", by)
		if ob.t.solution.supplied() {
			return ob.t.replies.refuse(ctx, fault.UserDeclined, why)
		}
		return Round{}, fault.New(fault.UserDeclined, "%s", why).WithNext("%s", ob.t.replies.askAgain(k))
	}
	if ob.t.approvals.takesNoReport(k, in) {
		switch {
		case ob.t.solution.supplied():
			return ob.t.replies.refuse(ctx, fault.EvidenceNotAccepted, notByReport)
		case !desc.Has(driver.FeatureHuman):
			return Round{}, ob.passOver(ctx, in.ID, *d.Route, "only a person's own answer counts")
		}
	}
	if a := ob.t.Run.Step.Approval; a != nil && a.ClientReview && in.Kind == driver.KindEvidence && a.Via != d.Route.Via {
		// The evidence will not pass the review that was to approve it, which is
		// decided on anew.
		ob.t.decided = nil
		return Round{}, ob.passOver(ctx, driver.KindApproval, decision.Route{Index: a.Route, Via: a.Via}, "the evidence comes through "+d.Route.Via)
	}
	if !known {
		return Round{}, ob.closeRoute(ctx, in.ID, *d.Route, decision.Unavailable, "driver is not configured", 0)
	}
	if in.Kind == driver.KindApproval && desc.Has(driver.FeatureClientReview) && !ob.t.approvals.evidenceComesThrough(k, d.Route.Via) {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, "the evidence does not come through it, so there is nothing to review")
	}
	if in.Kind == driver.KindApproval && desc.Has(driver.FeatureClientReview) && ob.t.approvals.phraseOf(k) != "" {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, "a phrase has to be typed, which no review does")
	}
	if desc.Has(driver.FeatureAgent) {
		return ob.viaAgent(ctx, k, in, *d.Route)
	}
	return ob.t.questions.viaClient(ctx, k, in, *d.Route, desc)
}

// evidenceComesThrough looks ahead: a review can only approve what it will see.
func (ap *approvals) evidenceComesThrough(k task, via string) bool {
	d := ap.t.e.Tree.Decide(driver.KindEvidence, ap.t.facts(k, driver.KindEvidence))
	return d.Route != nil && d.Route.Via == via
}

func (ob *obtaining) decide(k task, in driver.Input) decision.Decision {
	facts := ob.t.facts(k, in.ID)
	d := ob.t.e.Tree.Decide(in.Kind, facts)
	ob.t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// noRoute: the tree has nothing left for the input.
func (ob *obtaining) noRoute(k task, in driver.Input) error {
	if by, no := ob.t.Run.Step.Declines[in.ID]; no {
		return fault.New(fault.UserDeclined, "A person said no to this step through %s, and this client cannot ask them again.", by)
	}
	if ob.t.approvals.takesNoReport(k, in) {
		return fault.New(fault.ApprovalUnavailable, "%s. Nobody can be asked through this client%s", notByReport, ob.t.tries.troubles(in.ID))
	}
	switch in.Kind {
	case driver.KindApproval:
		if why := ob.t.tries.troubles(in.ID); why != "" {
			return fault.New(fault.ApprovalUnavailable, "Step %d needs a person's approval, which could not be obtained%s. Do not do the step's work.", ob.t.Run.Step.Index, why)
		}
		return fault.New(fault.ApprovalUnavailable,
			"Step %d needs a person's approval before anybody acts, and nobody can be asked through this client. Do not do the step's work. "+
				"Tell the operator to give the server an approval page (serve --http, or approval.listen), or the person to continue the run with a client "+
				"that offers elicitation; the last resort is approval.trust_agent", ob.t.Run.Step.Index)
	case driver.KindFiles:
		return fault.New(fault.FilesUnverified, "Step %d demands files that the server has to look at itself, and it cannot%s", ob.t.Run.Step.Index, ob.t.tries.troubles(in.ID))
	}
	if ob.t.tries.exhausted(in.ID) {
		return fault.New(fault.SamplingBudgetExceeded, "No route is left to obtain %q of step %d%s", in.ID, ob.t.Run.Step.Index, ob.t.tries.troubles(in.ID))
	}
	return unavailable("no route is left to obtain %q of step %d%s", in.ID, ob.t.Run.Step.Index, ob.t.tries.troubles(in.ID))
}

// troubles lists why the routes to the input failed that are closed in this call.
func (tr *tries) troubles(inputID string) string {
	var why []string
	for _, a := range tr.t.Run.Step.Tried {
		if a.Input == inputID && (tr.inThisCall(a) || !tr.passes(a)) {
			why = append(why, fmt.Sprintf("%s: %s (%s)", a.Via, a.Outcome, a.Reason))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}

// exhausted reports whether a budget closed a route to the input in this call.
func (tr *tries) exhausted(inputID string) bool {
	return slices.ContainsFunc(tr.t.Run.Step.Tried, func(a run.Attempt) bool {
		return a.Input == inputID && tr.inThisCall(a) && a.Outcome == string(decision.Exhausted)
	})
}

// failedRoute names the capability that failed in this call, rather than merely
// being out of reach.
func (tr *tries) failedRoute(inputID string) string {
	for _, a := range tr.t.Run.Step.Tried {
		o := decision.Outcome(a.Outcome)
		if a.Input == inputID && tr.inThisCall(a) && o != decision.Unavailable && o != decision.Exhausted {
			return a.Via
		}
	}
	return ""
}

// closeRoute is done with a route that gave no answer. Its error is the stop
// that the tree may want then.
func (ob *obtaining) closeRoute(ctx context.Context, inputID string, r decision.Route, o decision.Outcome, reason string, seq int64) error {
	a := ob.attempt(inputID, r, o, reason)
	if err := ob.leaveRoute(ctx, a, reason, seq); err != nil {
		return err
	}
	if ob.t.tries.reaction(a) == decision.Stop {
		return ob.t.tries.stopped(a)
	}
	return nil
}

// passOver leaves a route that is not meant for the input as it is now. It was
// not tried, so nothing follows from it.
func (ob *obtaining) passOver(ctx context.Context, inputID string, r decision.Route, reason string) error {
	a := ob.attempt(inputID, r, decision.Unavailable, reason)
	a.Untried = true
	return ob.leaveRoute(ctx, a, reason, 0)
}

func (ob *obtaining) attempt(inputID string, r decision.Route, o decision.Outcome, reason string) run.Attempt {
	return run.Attempt{Input: inputID, Route: r.Index, Path: r.Path, Via: r.Via, Outcome: string(o), Reason: plain.Clip(reason, 500), At: ob.t.Now()}
}

func (ob *obtaining) leaveRoute(ctx context.Context, a run.Attempt, reason string, seq int64) error {
	ob.t.e.log.DebugContext(ctx, "route closed", "run", ob.t.Run.ID, "step", ob.t.Run.Step.Index, "input", a.Input, "via", a.Via, "outcome", a.Outcome, "reason", a.Reason)
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: reason, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return ob.t.apply(ev)
}

// viaAgent takes the input from the submitted solution, or shows it to the agent.
func (ob *obtaining) viaAgent(ctx context.Context, k task, in driver.Input, r decision.Route) (Round, error) {
	drv, ok := ob.t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok {
		return Round{}, unavailable("driver %s is not configured", r.Via)
	}
	shown, err := ob.shownToAgent(ctx, drv, r.Via, k, in)
	if err != nil {
		return Round{}, err
	}
	s := ob.t.solution
	if s == nil || !s.supplied() {
		if ob.t.Run.Step.Index == ob.t.target {
			return ob.t.replies.leftOut(ctx, k, in, shown, nothingGiven)
		}
		return ob.t.replies.present(ctx, k, in, shown)
	}
	if s.Type != shown.Type {
		return ob.t.replies.refuse(ctx, fault.TypeMismatch, fmt.Sprintf("the open challenge is of type %q, the solution of type %q", shown.Type, s.Type))
	}
	ob.t.solution = nil
	if left := s.unfilled(in); len(left) > 0 {
		return ob.notFilledIn(ctx, drv, r.Via, k, in, left)
	}
	c, err := ob.t.calls.keyed(run.Call{Input: in.ID, Driver: r.Via})
	if err != nil {
		return Round{}, err
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: in, Step: k.where, Client: ob.t.caller.Client, Raw: s.raw, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	switch {
	case err != nil:
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read the solution, the step stays open: %s", r.Via, plain.Clip(err.Error(), 600))
	case res.Answer != nil:
		// Whatever the driver claims, this came from the agent.
		res.Answer.Provenance = driver.AgentReported
		return ob.supply(ctx, k, in, r, *res.Answer)
	case res.Declined != nil:
		return ob.t.replies.decline(ctx, in, r.Via, res.Declined.Reason, 0)
	case res.Missing != nil:
		return ob.t.replies.leftOut(ctx, k, in, shown, nothingGiven)
	case res.Invalid != nil:
		return ob.t.replies.refuse(ctx, fault.MissingField, "the solution is not an answer: "+describe(res.Invalid.Diagnostics))
	case res.Unavailable != nil:
		return Round{}, unavailable("driver %s cannot read the solution: %s", r.Via, res.Unavailable.Reason)
	}
	return Round{}, unavailable("driver %s gave no outcome", r.Via)
}

// notFilledIn: the agent sent back placeholders of next_call. What it did not
// say is missing, not wrong.
func (ob *obtaining) notFilledIn(ctx context.Context, drv driver.Capability, via string, k task, in driver.Input, left []string) (Round, error) {
	shown, err := ob.shownToAgent(ctx, drv, via, k, in)
	if err != nil {
		return Round{}, err
	}
	return ob.t.replies.leftOut(ctx, k, in, shown, fmt.Sprintf("Solution is missing: %s still hold the placeholders of next_call. "+
		"Replace each by what really happened, and leave out what is optional and not known", plain.Clip(strings.Join(left, ", "), 500)))
}

// shownToAgent is the challenge as the agent sees it. For evidence that is the
// step's own; anything else only the driver can word.
func (ob *obtaining) shownToAgent(ctx context.Context, drv driver.Capability, via string, k task, in driver.Input) (driver.AgentChallenge, error) {
	if in.Kind == driver.KindEvidence && ob.t.solution.supplied() {
		return driver.AgentChallenge{Type: k.common.Type, Description: in.Description, Display: in.Display}, nil
	}
	c, err := ob.t.calls.keyed(run.Call{Input: in.ID, Driver: via})
	if err != nil {
		return driver.AgentChallenge{}, err
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.where, Client: ob.t.caller.Client, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	switch {
	case err != nil:
		return driver.AgentChallenge{}, fault.Wrap(err, fault.DriverUnavailable, "the driver that shows challenges to agents failed, the step stays open: %s", plain.Clip(err.Error(), 600))
	case res.AgentChallenge == nil:
		return driver.AgentChallenge{}, unavailable("the agent route did not show input %q of step %d", in.ID, k.where.Index)
	}
	return *res.AgentChallenge, nil
}

// viaClient asks the client, if this call may, or takes what the driver knows itself.
func (qs *questions) viaClient(ctx context.Context, k task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, error) {
	if qs.answeredElsewhere(in, r) {
		return qs.pend(qs.waiting(ctx, k, *qs.t.Run.Step.Question))
	}
	if !qs.mayAsk(k, in, desc) && (qs.t.caller.Detached || in.Kind != driver.KindJudge) {
		return qs.t.replies.presentDriven(ctx, k, in)
	}
	if by, no := qs.t.Run.Step.Declines[in.ID]; no && qs.t.Run.Step.Noes >= maxNoes {
		return Round{}, fault.New(fault.UserDeclined, "A person said no through %s, and was asked often enough.", by)
	}
	times, dismissed := 1, 0
	earlier := qs.t.Run.Step.Superseded
	if q := qs.t.Run.Step.Question; q != nil && q.Input.ID == in.ID && q.Route == r.Index {
		// A question that does not say that work was submitted meanwhile is asked anew.
		sameWords := in.Kind != driver.KindApproval || q.Input.Description == in.Description
		if sameWords && qs.t.caller.Holding != nil && qs.t.caller.Holding(qs.t.Run.ID, q.Seq) {
			return qs.ask(ctx, *q, r)
		}
		if qs.givenUp(*q) {
			return Round{}, qs.abandon(ctx, *q, r)
		}
		if qs.leftAlone(*q) {
			return qs.waiting(ctx, k, *q)
		}
		times, dismissed = q.Asked+1, q.Dismissed
		earlier = append(slices.Clone(q.Earlier), q.Seq)
	}
	// What a run needs before its first step has no type.
	if s := qs.t.solution; s != nil && s.Type != "" && s.Type != k.common.Type && in.Kind != driver.KindRunInput {
		return qs.t.replies.refuse(ctx, fault.TypeMismatch,
			fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.common.Type, s.Type))
	}
	q := run.Question{
		Phrase: qs.t.approvals.phraseIn(k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: times, Earlier: earlier, Dismissed: dismissed,
	}
	return qs.render(ctx, k, q, r, nil)
}

// maxNoes is how often a person who said no is asked again before their no is final.
const maxNoes = 3

// mayAsk: nobody is asked when nobody waits, about a second input in one call,
// or before the work is done, unless the step brings its own prompt for a model.
// A judge comes when it is done; where one that is no client can be had at once,
// render finds out. Files are looked at right behind the evidence: that disturbs
// no person.
func (qs *questions) mayAsk(k task, in driver.Input, desc driver.Descriptor) bool {
	if in.Kind == driver.KindFiles && !desc.Has(driver.FeatureHuman) {
		return !qs.t.caller.Detached
	}
	if qs.t.caller.Detached || (qs.asked != subject{} && qs.asked != subject{qs.t.Run.Step.Index, in.ID}) {
		return false
	}
	return k.where.Index == qs.t.target || k.common.Sampling != nil || in.Kind == driver.KindRunInput || in.Kind == driver.KindJudge
}

// render lets the capability driver put the question and sends it, or takes
// what it answers without asking. Diagnostics are set when a reply was invalid.
func (qs *questions) render(ctx context.Context, k task, q run.Question, r decision.Route, diagnostics []driver.Diagnostic) (Round, error) {
	drv, ok := qs.t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok && qs.t.Run.Step.Call != nil {
		return Round{}, unavailable("driver %s, which step %d waits for, is not configured", r.Via, qs.t.Run.Step.Index)
	}
	if !ok {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Unavailable, "driver is not configured", 0)
	}
	in := q.Input
	if r.Approval == driver.ApprovalUser {
		in.Approval = driver.ApprovalUser
	}
	desc, _, _ := qs.t.e.Drivers.Describe(r.Via)
	cost, why := qs.t.afford(&in, desc)
	defer cost.release()
	switch {
	case qs.t.Run.Step.Call != nil:
		cost = &expense{t: qs.t} // the call was paid for when it was made first
	case why != "":
		return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Exhausted, why, q.Seq)
	}
	link := qs.t.links.linkFor(in)
	c, recovering, err := qs.t.calls.ready(ctx, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return Round{}, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if diagnostics == nil {
		diagnostics = qs.t.Run.Step.Refused[in.ID]
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.where, Client: qs.t.caller.Client, Links: driver.Links{Approval: qs.t.links.linkTo(link)}, Diagnostics: diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering,
	})
	l := later{res.Pending, res.Unknown, res.NotDone}
	if err == nil {
		err = qs.t.calls.breach(c, recovering, l)
	}
	if lost, err := qs.t.calls.lost(c, recovering, l, err); lost || err != nil {
		cost.spend() // perhaps
		return Round{}, err
	}
	var unsendable *obstacle
	if res.ClientRequest != nil {
		q.Needs, unsendable = demands(desc, qs.t.caller.Client, *res.ClientRequest)
	}
	switch {
	case err == nil && res.Pending != nil:
		cost.spend()
		return qs.t.calls.deferCall(ctx, c, *res.Pending, qs.t.Run.Step.State)
	case err != nil && qs.t.Run.Step.Call != nil:
		// The wait continues: another route must not get around it.
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, qs.t.Run.Step.Index, plain.Clip(err.Error(), 600))
	case err != nil:
		cost.spend() // perhaps
		return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, err.Error(), 0)
	case unsendable != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, unsendable.outcome, unsendable.why, 0)
	case res.ClientRequest != nil && q.Seq == 0 && !qs.mayAsk(k, in, desc):
		if err := qs.t.calls.settle("a question to the client, which this call may not ask"); err != nil {
			return Round{}, err
		}
		return qs.t.replies.presentDriven(ctx, k, q.Input)
	case res.ClientRequest != nil:
		cost.spend()
		request, err := readable(*res.ClientRequest)
		if err != nil {
			return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "its request is not sound JSON: "+err.Error(), 0)
		}
		q.Link = qs.t.links.kept(link, request.Params)
		return qs.question(ctx, q, r, request, diagnostics)
	case res.Invalid != nil:
		cost.spend()
		return qs.invalid(ctx, k, q, r, res.Invalid.Diagnostics)
	case res.ClientReview != nil && in.Kind == driver.KindApproval:
		return Round{}, qs.t.approvals.leaveToReview(ctx, r)
	case res.Elsewhere != nil && in.Kind == driver.KindApproval:
		return qs.leaveToPage(ctx, k, q, r, link, *res.Elsewhere)
	case res.Answer != nil:
		cost.spend()
		return qs.t.obtaining.supply(ctx, k, in, r, *res.Answer)
	case res.Unavailable != nil:
		if res.Unavailable.Asked {
			cost.spend()
		}
		return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// question records a question and then asks it.
func (qs *questions) question(ctx context.Context, q run.Question, r decision.Route, req driver.ClientRequest, diagnostics []driver.Diagnostic) (Round, error) {
	kind, seq := run.Asked, q.Seq
	if seq != 0 {
		kind = run.Repaired
	}
	q.Ask, q.Elsewhere = req, ""
	if err := qs.put(&q, run.Event{Kind: kind, Seq: seq, Diagnostics: diagnostics}); err != nil {
		return Round{}, err
	}
	qs.t.record(json.RawMessage(fmt.Sprintf(`{"asks":%d}`, q.Seq)))
	return qs.ask(ctx, q, r)
}

// put records a question under a number of its own. The event's number is that of
// the question in whose place it comes, if any.
func (qs *questions) put(q *run.Question, ev run.Event) error {
	q.Unheard, q.Note = len(qs.t.replies.solved), qs.t.replies.note
	if old := qs.t.Run.Step.Question; old != nil {
		q.Unheard = max(q.Unheard, old.Unheard)
	}
	q.Seq, q.Since = qs.t.Run.Seq+1, qs.t.started
	q.Digest, q.Client = qs.t.Run.Step.Digest, qs.t.caller.Client
	q.AskedAt, q.Driver = qs.t.Now(), qs.t.trust.ref(q.Via)
	ev.Question, ev.Input, ev.Via = q, q.Input.ID, q.Via
	if err := qs.t.apply(ev); err != nil {
		return err
	}
	qs.asked = subject{qs.t.Run.Step.Index, q.Input.ID}
	return nil
}

func (qs *questions) ask(ctx context.Context, q run.Question, r decision.Route) (Round, error) {
	if err := qs.t.save(ctx); err != nil {
		return Round{}, err
	}
	if qs.t.caller.Asked != nil {
		qs.t.caller.Asked(qs.t.Run.ID, q.Seq)
	}
	if len(q.Needs) == 0 {
		q.Needs, _ = driver.Descriptor{}.Demands(q.Ask) // what was not recorded is a request that MCP defines
	}
	wait := qs.t.caller.CanWait
	if r.Timeout > 0 && r.Timeout < wait {
		wait = r.Timeout
	}
	return Round{Ask: &Ask{
		Run: qs.t.Run.ID, Seq: q.Seq, Method: q.Ask.Method, Params: q.Ask.Params, Needs: q.Needs, Wait: wait, Human: q.Human,
		Linked: q.Link != nil,
	}}, nil
}

// leaveToReview records that the client's own review of the evidence request
// stands for the approval.
func (ap *approvals) leaveToReview(ctx context.Context, r decision.Route) error {
	desc, _, _ := ap.t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return ap.t.obtaining.closeRoute(ctx, driver.KindApproval, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0)
	}
	return ap.t.apply(run.Event{
		Kind: run.Supplied, Input: driver.KindApproval, Via: r.Via,
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

// supply takes an answer that needed no question.
func (ob *obtaining) supply(ctx context.Context, k task, in driver.Input, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = in.ID, r.Via
	if problem := ob.t.trust.doubt(in, a, r.Via); problem != "" {
		return Round{}, ob.closeRoute(ctx, in.ID, r, decision.Errored, problem, 0)
	}
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a}
	switch in.Kind {
	case driver.KindApproval:
		if !saysYes(a.Value) {
			return ob.t.replies.decline(ctx, in, r.Via, "not approved", 0)
		}
		phrase := ob.t.approvals.phraseOf(k)
		if wrong := wrongPhrase(phrase, typedIn(a.Value)); wrong != "" {
			if err := ob.t.calls.settle(wrong); err != nil {
				return Round{}, err
			}
			return ob.t.replies.refuse(ctx, fault.MissingField, "the approval does not count: "+wrong)
		}
		ev.Approval = ob.t.approvals.approval(r, a.Provenance, basisOf(a))
		ev.Approval.Typed = phrase != ""
		ev.Reason = in.Description
	case driver.KindFiles:
		if round, wrong, err := ob.fileTrouble(ctx, a, r, 0); wrong || err != nil {
			return round, err
		}
	}
	if err := ob.t.apply(ev); err != nil {
		return Round{}, err
	}
	return ob.settled(ctx, in, a)
}

// settled goes on with an answer that is recorded now.
func (ob *obtaining) settled(ctx context.Context, in driver.Input, a driver.Answer) (Round, error) {
	switch in.Kind {
	case driver.KindApproval:
		return ob.t.approvals.approved(ctx)
	case driver.KindFiles:
		return ob.filesSettled(ctx, a)
	}
	return Round{}, ob.moreDue()
}

// moreDue gives the step a new nonce when it needs another input besides the
// one that was answered just now, which is then shown, not missed.
func (ob *obtaining) moreDue() error {
	if !slices.ContainsFunc(ob.t.Run.Step.Inputs, func(in driver.Input) bool { return in.Kind != driver.KindSimilarity }) {
		return nil
	}
	return ob.setAside()
}

// setAside is done with the submission, whose nonce can then not be used for
// what the step needs next.
func (ob *obtaining) setAside() error {
	ob.t.taken()
	ob.t.solution, ob.t.target = nil, 0
	return ob.t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce()})
}

// approved shows the step again, with a new nonce, now that it may be worked on.
func (ap *approvals) approved(ctx context.Context) (Round, error) {
	if err := ap.t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce()}); err != nil {
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

// maxValue bounds an answer.
const maxValue = 8 << 20

// doubt says what is wrong with an answer that a driver vouches for; drivers
// are not trusted to claim more than their descriptor allows.
func (tr *trust) doubt(in driver.Input, a driver.Answer, via string) string {
	desc, _, _ := tr.t.e.Drivers.Describe(via)
	switch {
	case !json.Valid(a.Value):
		return "the answer is not JSON"
	case len(a.Value) > maxValue:
		return "the answer is too large"
	case drivers.MayClaim(desc, a.Provenance):
	case a.Provenance == driver.ServerObserved:
		return "claims an observation of the server for what somebody else said"
	case a.Provenance == driver.ClientAttested, a.Provenance == driver.LinkHolder:
		return "claims a person's word without the feature " + driver.FeatureHuman
	}
	if in.Kind == driver.KindJudge {
		if problems := schema.Validate(verdictSchema, a.Value); len(problems) > 0 {
			return "the judgement is none: " + describe(problems)
		}
	}
	return tr.barred(in, via)
}

// basisOf tells how a yes came that needed no question.
func basisOf(a driver.Answer) run.Basis {
	if a.Provenance == driver.AgentReported {
		return run.BasisAgent
	}
	return ""
}

// typedIn is what was typed beside a yes.
func typedIn(value json.RawMessage) string {
	var v struct {
		Phrase string `json:"phrase"`
	}
	_ = json.Unmarshal(value, &v) // nothing typed, then
	return v.Phrase
}

// saysYes: only this exact word approves anything.
func saysYes(value json.RawMessage) bool {
	var v struct {
		Confirmation string `json:"confirmation"`
	}
	return json.Unmarshal(value, &v) == nil && v.Confirmation == "approved"
}

func describe(ds []driver.Diagnostic) string { return plain.Clip(fields.Text(ds), 2000) }
