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
			return t.halt(ctx, shown)
		}
		if err != nil || round.Reply != nil || round.Ask != nil {
			return round, err
		}
		if err := ctx.Err(); err != nil {
			return Round{}, err
		}
	}
	return t.halt(ctx, unavailable("step %d went round %d times without a verdict", t.Run.Step.Index, maxHops))
}

// hop does the next thing that is due. An empty Round means: look again.
func (t *turn) hop(ctx context.Context) (Round, error) {
	if t.complete() {
		return t.completed(ctx)
	}
	if t.Run.Step.Call != nil {
		return t.follow(ctx)
	}
	if in, missing := t.runInput(); missing != nil {
		return t.obtainRunInput(ctx, in, missing)
	}
	if t.Run.Step.UntoldNo != "" {
		return t.tellNo(ctx)
	}
	k, err := t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	if again, err := t.startOver(k); again || err != nil {
		return Round{}, err
	}
	switch {
	case len(t.Run.Step.Inputs) > 0:
		in := t.dueInput(k)
		if a := t.approvedAnswer(k, in); a != nil {
			return Round{}, t.takeApproval(in, a)
		}
		return t.obtain(ctx, k, in)
	case t.Run.Step.Held != nil:
		return t.conclude(ctx, k)
	}
	return t.advance(ctx, k)
}

// dueInput is the one input that is open: what the core answers itself, then
// approval, evidence, files.
func (t *turn) dueInput(k task) driver.Input {
	s := t.Run.Step
	for _, in := range s.Inputs {
		if in.Kind == driver.KindSimilarity {
			return in
		}
	}
	for _, in := range s.Inputs {
		// Neither a judgement nor a look at files is part of what a person approved.
		if s.Gated && in.Kind != driver.KindJudge && in.Kind != driver.KindFiles && !t.approvalStands() {
			return t.approvalInput(k, in)
		}
	}
	return s.Inputs[0]
}

func (t *turn) approvalStands() bool {
	a := t.Run.Step.Approval
	return a != nil && t.Run.Step.Approved(a.Via, run.Event{At: t.e.opt.Clock.Now()})
}

// lapse says so, in the reply and in the record, where the yes to the open step
// has become too old to be used.
func (t *turn) lapse() error {
	a := t.Run.Step.Approval
	if a == nil || !a.Expired(t.e.opt.Clock.Now()) {
		return nil
	}
	why := fmt.Sprintf("The approval of %s lapsed after %s, and a person is asked again.",
		a.GrantedAt.UTC().Format(time.RFC3339), a.ExpiresAt.Sub(a.GrantedAt))
	t.note = plain.Sentences(t.note, why)
	return t.apply(run.Event{Kind: run.Lapsed, Input: driver.KindApproval, Via: a.Via, Reason: why})
}

// obtain tries the due input's next route.
func (t *turn) obtain(ctx context.Context, k task, in driver.Input) (Round, error) {
	if in.Kind == driver.KindSimilarity {
		return Round{}, t.answerSimilarity(ctx, in)
	}
	if in.Kind == driver.KindApproval {
		if err := t.lapse(); err != nil {
			return Round{}, err
		}
	}
	t.begin(in.ID, t.Now())
	t.due = in.Kind
	d := t.decide(k, in)
	if d.Route == nil {
		if in.Kind == driver.KindJudge {
			return Round{}, t.unjudged(k)
		}
		return Round{}, t.noRoute(k, in)
	}
	t.trying = d.Route.Via
	desc, _, known := t.e.Drivers.Describe(d.Route.Via)
	if why := t.barred(in, d.Route.Via); why != "" {
		return Round{}, t.passOver(ctx, in.ID, *d.Route, why)
	}
	if in.Kind == driver.KindApproval && !t.takesNoReport(k, in) && !desc.Has(driver.FeatureAgent) {
		if err := t.tooEarly(); err != nil {
			return Round{}, err
		}
		in = t.approvalInput(k, t.gatedInput())
	}
	// Work that comes after the no is not what asks the person again.
	despite := in.Kind == driver.KindApproval && t.solution.supplied() && !desc.Has(driver.FeatureAgent)
	if by, no := t.Run.Step.Declines[in.ID]; no && (by != d.Route.Via || despite) {
		if in.Kind == driver.KindApproval && !t.solution.supplied() {
			// Perhaps a later route is the one that leads to the person.
			return Round{}, t.passOver(ctx, in.ID, *d.Route, "a person said no through "+by)
		}
		why := fmt.Sprintf("A person said no to this step through %s, and only the person can take that back, in the same way.", by)
		if t.solution.supplied() {
			return t.refuse(ctx, fault.UserDeclined, why)
		}
		return Round{}, fault.New(fault.UserDeclined, "%s", why).WithNext("%s", t.askAgain(k))
	}
	if t.takesNoReport(k, in) {
		switch {
		case t.solution.supplied():
			return t.refuse(ctx, fault.EvidenceNotAccepted, notByReport)
		case !desc.Has(driver.FeatureHuman):
			return Round{}, t.passOver(ctx, in.ID, *d.Route, "only a person's own answer counts")
		}
	}
	if a := t.Run.Step.Approval; a != nil && a.ClientReview && in.Kind == driver.KindEvidence && a.Via != d.Route.Via {
		// The evidence will not pass the review that was to approve it, which is
		// decided on anew.
		t.decided = nil
		return Round{}, t.passOver(ctx, driver.KindApproval, decision.Route{Index: a.Route, Via: a.Via}, "the evidence comes through "+d.Route.Via)
	}
	if !known {
		return Round{}, t.closeRoute(ctx, in.ID, *d.Route, decision.Unavailable, "driver is not configured", 0)
	}
	if in.Kind == driver.KindApproval && desc.Has(driver.FeatureClientReview) && !t.evidenceComesThrough(k, d.Route.Via) {
		return Round{}, t.passOver(ctx, in.ID, *d.Route, "the evidence does not come through it, so there is nothing to review")
	}
	if in.Kind == driver.KindApproval && desc.Has(driver.FeatureClientReview) && t.phraseOf(k) != "" {
		return Round{}, t.passOver(ctx, in.ID, *d.Route, "a phrase has to be typed, which no review does")
	}
	if desc.Has(driver.FeatureAgent) {
		return t.viaAgent(ctx, k, in, *d.Route)
	}
	return t.viaClient(ctx, k, in, *d.Route, desc)
}

// evidenceComesThrough looks ahead: a review can only approve what it will see.
func (t *turn) evidenceComesThrough(k task, via string) bool {
	d := t.e.Tree.Decide(driver.KindEvidence, t.facts(k, driver.KindEvidence))
	return d.Route != nil && d.Route.Via == via
}

func (t *turn) decide(k task, in driver.Input) decision.Decision {
	facts := t.facts(k, in.ID)
	d := t.e.Tree.Decide(in.Kind, facts)
	t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// noRoute: the tree has nothing left for the input.
func (t *turn) noRoute(k task, in driver.Input) error {
	if by, no := t.Run.Step.Declines[in.ID]; no {
		return fault.New(fault.UserDeclined, "A person said no to this step through %s, and this client cannot ask them again.", by)
	}
	if t.takesNoReport(k, in) {
		return fault.New(fault.ApprovalUnavailable, "%s. Nobody can be asked through this client%s", notByReport, t.troubles(in.ID))
	}
	switch in.Kind {
	case driver.KindApproval:
		if why := t.troubles(in.ID); why != "" {
			return fault.New(fault.ApprovalUnavailable, "Step %d needs a person's approval, which could not be obtained%s. Do not do the step's work.", t.Run.Step.Index, why)
		}
		return fault.New(fault.ApprovalUnavailable,
			"Step %d needs a person's approval before anybody acts, and nobody can be asked through this client. Do not do the step's work. "+
				"Tell the operator to give the server an approval page (serve --http, or approval.listen), or the person to continue the run with a client "+
				"that offers elicitation; the last resort is approval.trust_agent", t.Run.Step.Index)
	case driver.KindFiles:
		return fault.New(fault.FilesUnverified, "Step %d demands files that the server has to look at itself, and it cannot%s", t.Run.Step.Index, t.troubles(in.ID))
	}
	if t.exhausted(in.ID) {
		return fault.New(fault.SamplingBudgetExceeded, "No route is left to obtain %q of step %d%s", in.ID, t.Run.Step.Index, t.troubles(in.ID))
	}
	return unavailable("no route is left to obtain %q of step %d%s", in.ID, t.Run.Step.Index, t.troubles(in.ID))
}

// troubles lists why the routes to the input failed that are closed in this call.
func (t *turn) troubles(inputID string) string {
	var why []string
	for _, a := range t.Run.Step.Tried {
		if a.Input == inputID && (t.inThisCall(a) || !t.passes(a)) {
			why = append(why, fmt.Sprintf("%s: %s (%s)", a.Via, a.Outcome, a.Reason))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}

// exhausted reports whether a budget closed a route to the input in this call.
func (t *turn) exhausted(inputID string) bool {
	return slices.ContainsFunc(t.Run.Step.Tried, func(a run.Attempt) bool {
		return a.Input == inputID && t.inThisCall(a) && a.Outcome == string(decision.Exhausted)
	})
}

// failedRoute names the capability that failed in this call, rather than merely
// being out of reach.
func (t *turn) failedRoute(inputID string) string {
	for _, a := range t.Run.Step.Tried {
		o := decision.Outcome(a.Outcome)
		if a.Input == inputID && t.inThisCall(a) && o != decision.Unavailable && o != decision.Exhausted {
			return a.Via
		}
	}
	return ""
}

// closeRoute is done with a route that gave no answer. Its error is the stop
// that the tree may want then.
func (t *turn) closeRoute(ctx context.Context, inputID string, r decision.Route, o decision.Outcome, reason string, seq int64) error {
	a := t.attempt(inputID, r, o, reason)
	if err := t.leaveRoute(ctx, a, reason, seq); err != nil {
		return err
	}
	if t.reaction(a) == decision.Stop {
		return t.stopped(a)
	}
	return nil
}

// passOver leaves a route that is not meant for the input as it is now. It was
// not tried, so nothing follows from it.
func (t *turn) passOver(ctx context.Context, inputID string, r decision.Route, reason string) error {
	a := t.attempt(inputID, r, decision.Unavailable, reason)
	a.Untried = true
	return t.leaveRoute(ctx, a, reason, 0)
}

func (t *turn) attempt(inputID string, r decision.Route, o decision.Outcome, reason string) run.Attempt {
	return run.Attempt{Input: inputID, Route: r.Index, Path: r.Path, Via: r.Via, Outcome: string(o), Reason: plain.Clip(reason, 500), At: t.Now()}
}

func (t *turn) leaveRoute(ctx context.Context, a run.Attempt, reason string, seq int64) error {
	t.e.log.DebugContext(ctx, "route closed", "run", t.Run.ID, "step", t.Run.Step.Index, "input", a.Input, "via", a.Via, "outcome", a.Outcome, "reason", a.Reason)
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: reason, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return t.apply(ev)
}

// viaAgent takes the input from the submitted solution, or shows it to the agent.
func (t *turn) viaAgent(ctx context.Context, k task, in driver.Input, r decision.Route) (Round, error) {
	drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok {
		return Round{}, unavailable("driver %s is not configured", r.Via)
	}
	shown, err := t.shownToAgent(ctx, drv, r.Via, k, in)
	if err != nil {
		return Round{}, err
	}
	s := t.solution
	if s == nil || !s.supplied() {
		if t.Run.Step.Index == t.target {
			return t.leftOut(ctx, k, in, shown, nothingGiven)
		}
		return t.present(ctx, k, in, shown)
	}
	if s.Type != shown.Type {
		return t.refuse(ctx, fault.TypeMismatch, fmt.Sprintf("the open challenge is of type %q, the solution of type %q", shown.Type, s.Type))
	}
	t.solution = nil
	if left := s.unfilled(in); len(left) > 0 {
		return t.notFilledIn(ctx, drv, r.Via, k, in, left)
	}
	c, err := t.keyed(run.Call{Input: in.ID, Driver: r.Via})
	if err != nil {
		return Round{}, err
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: in, Step: k.where, Client: t.caller.Client, Raw: s.raw, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	switch {
	case err != nil:
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read the solution, the step stays open: %s", r.Via, plain.Clip(err.Error(), 600))
	case res.Answer != nil:
		// Whatever the driver claims, this came from the agent.
		res.Answer.Provenance = driver.AgentReported
		return t.supply(ctx, k, in, r, *res.Answer)
	case res.Declined != nil:
		return t.decline(ctx, in, r.Via, res.Declined.Reason, 0)
	case res.Missing != nil:
		return t.leftOut(ctx, k, in, shown, nothingGiven)
	case res.Invalid != nil:
		return t.refuse(ctx, fault.MissingField, "the solution is not an answer: "+describe(res.Invalid.Diagnostics))
	case res.Unavailable != nil:
		return Round{}, unavailable("driver %s cannot read the solution: %s", r.Via, res.Unavailable.Reason)
	}
	return Round{}, unavailable("driver %s gave no outcome", r.Via)
}

// notFilledIn: the agent sent back placeholders of next_call. What it did not
// say is missing, not wrong.
func (t *turn) notFilledIn(ctx context.Context, drv driver.Capability, via string, k task, in driver.Input, left []string) (Round, error) {
	shown, err := t.shownToAgent(ctx, drv, via, k, in)
	if err != nil {
		return Round{}, err
	}
	return t.leftOut(ctx, k, in, shown, fmt.Sprintf("Solution is missing: %s still hold the placeholders of next_call. "+
		"Replace each by what really happened, and leave out what is optional and not known", plain.Clip(strings.Join(left, ", "), 500)))
}

// shownToAgent is the challenge as the agent sees it. For evidence that is the
// step's own; anything else only the driver can word.
func (t *turn) shownToAgent(ctx context.Context, drv driver.Capability, via string, k task, in driver.Input) (driver.AgentChallenge, error) {
	if in.Kind == driver.KindEvidence && t.solution.supplied() {
		return driver.AgentChallenge{Type: k.common.Type, Description: in.Description, Display: in.Display}, nil
	}
	c, err := t.keyed(run.Call{Input: in.ID, Driver: via})
	if err != nil {
		return driver.AgentChallenge{}, err
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.where, Client: t.caller.Client, IdempotencyKey: c.Key, Attempt: c.Attempt,
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
func (t *turn) viaClient(ctx context.Context, k task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, error) {
	if t.answeredElsewhere(in, r) {
		return t.pend(t.waiting(ctx, k, *t.Run.Step.Question))
	}
	if !t.mayAsk(k, in, desc) && (t.caller.Detached || in.Kind != driver.KindJudge) {
		return t.presentDriven(ctx, k, in)
	}
	if by, no := t.Run.Step.Declines[in.ID]; no && t.Run.Step.Noes >= maxNoes {
		return Round{}, fault.New(fault.UserDeclined, "A person said no through %s, and was asked often enough.", by)
	}
	times, dismissed := 1, 0
	earlier := t.Run.Step.Superseded
	if q := t.Run.Step.Question; q != nil && q.Input.ID == in.ID && q.Route == r.Index {
		// A question that does not say that work was submitted meanwhile is asked anew.
		sameWords := in.Kind != driver.KindApproval || q.Input.Description == in.Description
		if sameWords && t.caller.Holding != nil && t.caller.Holding(t.Run.ID, q.Seq) {
			return t.ask(ctx, *q, r)
		}
		if t.givenUp(*q) {
			return Round{}, t.abandon(ctx, *q, r)
		}
		if t.leftAlone(*q) {
			return t.waiting(ctx, k, *q)
		}
		times, dismissed = q.Asked+1, q.Dismissed
		earlier = append(slices.Clone(q.Earlier), q.Seq)
	}
	// What a run needs before its first step has no type.
	if s := t.solution; s != nil && s.Type != "" && s.Type != k.common.Type && in.Kind != driver.KindRunInput {
		return t.refuse(ctx, fault.TypeMismatch,
			fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.common.Type, s.Type))
	}
	q := run.Question{
		Phrase: t.phraseIn(k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: times, Earlier: earlier, Dismissed: dismissed,
	}
	return t.render(ctx, k, q, r, nil)
}

// maxNoes is how often a person who said no is asked again before their no is final.
const maxNoes = 3

// mayAsk: nobody is asked when nobody waits, about a second input in one call,
// or before the work is done, unless the step brings its own prompt for a model.
// A judge comes when it is done; where one that is no client can be had at once,
// render finds out. Files are looked at right behind the evidence: that disturbs
// no person.
func (t *turn) mayAsk(k task, in driver.Input, desc driver.Descriptor) bool {
	if in.Kind == driver.KindFiles && !desc.Has(driver.FeatureHuman) {
		return !t.caller.Detached
	}
	if t.caller.Detached || (t.asked != subject{} && t.asked != subject{t.Run.Step.Index, in.ID}) {
		return false
	}
	return k.where.Index == t.target || k.common.Sampling != nil || in.Kind == driver.KindRunInput || in.Kind == driver.KindJudge
}

// render lets the capability driver put the question and sends it, or takes
// what it answers without asking. Diagnostics are set when a reply was invalid.
func (t *turn) render(ctx context.Context, k task, q run.Question, r decision.Route, diagnostics []driver.Diagnostic) (Round, error) {
	drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok && t.Run.Step.Call != nil {
		return Round{}, unavailable("driver %s, which step %d waits for, is not configured", r.Via, t.Run.Step.Index)
	}
	if !ok {
		return Round{}, t.closeRoute(ctx, q.Input.ID, r, decision.Unavailable, "driver is not configured", 0)
	}
	in := q.Input
	if r.Approval == driver.ApprovalUser {
		in.Approval = driver.ApprovalUser
	}
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	cost, why := t.afford(&in, desc)
	defer cost.release()
	switch {
	case t.Run.Step.Call != nil:
		cost = &expense{t: t} // the call was paid for when it was made first
	case why != "":
		return Round{}, t.closeRoute(ctx, in.ID, r, decision.Exhausted, why, q.Seq)
	}
	link := t.linkFor(in)
	c, recovering, err := t.ready(ctx, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return Round{}, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if diagnostics == nil {
		diagnostics = t.Run.Step.Refused[in.ID]
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.where, Client: t.caller.Client, Links: driver.Links{Approval: t.linkTo(link)}, Diagnostics: diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering,
	})
	l := later{res.Pending, res.Unknown, res.NotDone}
	if err == nil {
		err = t.breach(c, recovering, l)
	}
	if lost, err := t.lost(c, recovering, l, err); lost || err != nil {
		cost.spend() // perhaps
		return Round{}, err
	}
	var unsendable *obstacle
	if res.ClientRequest != nil {
		q.Needs, unsendable = demands(desc, t.caller.Client, *res.ClientRequest)
	}
	switch {
	case err == nil && res.Pending != nil:
		cost.spend()
		return t.deferCall(ctx, c, *res.Pending, t.Run.Step.State)
	case err != nil && t.Run.Step.Call != nil:
		// The wait continues: another route must not get around it.
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, t.Run.Step.Index, plain.Clip(err.Error(), 600))
	case err != nil:
		cost.spend() // perhaps
		return Round{}, t.closeRoute(ctx, in.ID, r, decision.Errored, err.Error(), 0)
	case unsendable != nil:
		return Round{}, t.closeRoute(ctx, in.ID, r, unsendable.outcome, unsendable.why, 0)
	case res.ClientRequest != nil && q.Seq == 0 && !t.mayAsk(k, in, desc):
		if err := t.settle("a question to the client, which this call may not ask"); err != nil {
			return Round{}, err
		}
		return t.presentDriven(ctx, k, q.Input)
	case res.ClientRequest != nil:
		cost.spend()
		request, err := readable(*res.ClientRequest)
		if err != nil {
			return Round{}, t.closeRoute(ctx, in.ID, r, decision.Errored, "its request is not sound JSON: "+err.Error(), 0)
		}
		q.Link = t.kept(link, request.Params)
		return t.question(ctx, q, r, request, diagnostics)
	case res.Invalid != nil:
		cost.spend()
		return t.invalid(ctx, k, q, r, res.Invalid.Diagnostics)
	case res.ClientReview != nil && in.Kind == driver.KindApproval:
		return Round{}, t.leaveToReview(ctx, r)
	case res.Elsewhere != nil && in.Kind == driver.KindApproval:
		return t.leaveToPage(ctx, k, q, r, link, *res.Elsewhere)
	case res.Answer != nil:
		cost.spend()
		return t.supply(ctx, k, in, r, *res.Answer)
	case res.Unavailable != nil:
		if res.Unavailable.Asked {
			cost.spend()
		}
		return Round{}, t.closeRoute(ctx, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, t.closeRoute(ctx, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// question records a question and then asks it.
func (t *turn) question(ctx context.Context, q run.Question, r decision.Route, req driver.ClientRequest, diagnostics []driver.Diagnostic) (Round, error) {
	kind, seq := run.Asked, q.Seq
	if seq != 0 {
		kind = run.Repaired
	}
	q.Ask, q.Elsewhere = req, ""
	if err := t.put(&q, run.Event{Kind: kind, Seq: seq, Diagnostics: diagnostics}); err != nil {
		return Round{}, err
	}
	t.record(json.RawMessage(fmt.Sprintf(`{"asks":%d}`, q.Seq)))
	return t.ask(ctx, q, r)
}

// put records a question under a number of its own. The event's number is that of
// the question in whose place it comes, if any.
func (t *turn) put(q *run.Question, ev run.Event) error {
	q.Unheard, q.Note = len(t.solved), t.note
	if old := t.Run.Step.Question; old != nil {
		q.Unheard = max(q.Unheard, old.Unheard)
	}
	q.Seq, q.Since = t.Run.Seq+1, t.started
	q.Digest, q.Client = t.Run.Step.Digest, t.caller.Client
	q.AskedAt, q.Driver = t.Now(), t.ref(q.Via)
	ev.Question, ev.Input, ev.Via = q, q.Input.ID, q.Via
	if err := t.apply(ev); err != nil {
		return err
	}
	t.asked = subject{t.Run.Step.Index, q.Input.ID}
	return nil
}

func (t *turn) ask(ctx context.Context, q run.Question, r decision.Route) (Round, error) {
	if err := t.save(ctx); err != nil {
		return Round{}, err
	}
	if t.caller.Asked != nil {
		t.caller.Asked(t.Run.ID, q.Seq)
	}
	if len(q.Needs) == 0 {
		q.Needs, _ = driver.Descriptor{}.Demands(q.Ask) // what was not recorded is a request that MCP defines
	}
	wait := t.caller.CanWait
	if r.Timeout > 0 && r.Timeout < wait {
		wait = r.Timeout
	}
	return Round{Ask: &Ask{
		Run: t.Run.ID, Seq: q.Seq, Method: q.Ask.Method, Params: q.Ask.Params, Needs: q.Needs, Wait: wait, Human: q.Human,
		Linked: q.Link != nil,
	}}, nil
}

// leaveToReview records that the client's own review of the evidence request
// stands for the approval.
func (t *turn) leaveToReview(ctx context.Context, r decision.Route) error {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return t.closeRoute(ctx, driver.KindApproval, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0)
	}
	return t.apply(run.Event{
		Kind: run.Supplied, Input: driver.KindApproval, Via: r.Via,
		// Nobody vouches for anything yet: the client has still to see the request.
		Approval: t.approval(r, "", run.BasisReview),
	})
}

func (t *turn) approval(r decision.Route, p driver.Provenance, basis run.Basis) *run.Approval {
	now := t.e.opt.Clock.Now()
	return &run.Approval{
		Digest: t.Run.Step.Digest, Via: r.Via, Route: r.Index, Provenance: p, ClientReview: basis == run.BasisReview, Basis: basis,
		GrantedAt: now, ExpiresAt: now.Add(t.e.opt.ApprovalTTL), Premature: t.earlyTimes(),
	}
}

// supply takes an answer that needed no question.
func (t *turn) supply(ctx context.Context, k task, in driver.Input, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = in.ID, r.Via
	if problem := t.doubt(in, a, r.Via); problem != "" {
		return Round{}, t.closeRoute(ctx, in.ID, r, decision.Errored, problem, 0)
	}
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a}
	switch in.Kind {
	case driver.KindApproval:
		if !saysYes(a.Value) {
			return t.decline(ctx, in, r.Via, "not approved", 0)
		}
		phrase := t.phraseOf(k)
		if wrong := wrongPhrase(phrase, typedIn(a.Value)); wrong != "" {
			if err := t.settle(wrong); err != nil {
				return Round{}, err
			}
			return t.refuse(ctx, fault.MissingField, "the approval does not count: "+wrong)
		}
		ev.Approval = t.approval(r, a.Provenance, basisOf(a))
		ev.Approval.Typed = phrase != ""
		ev.Reason = in.Description
	case driver.KindFiles:
		if round, wrong, err := t.fileTrouble(ctx, a, r, 0); wrong || err != nil {
			return round, err
		}
	}
	if err := t.apply(ev); err != nil {
		return Round{}, err
	}
	return t.settled(ctx, in, a)
}

// settled goes on with an answer that is recorded now.
func (t *turn) settled(ctx context.Context, in driver.Input, a driver.Answer) (Round, error) {
	switch in.Kind {
	case driver.KindApproval:
		return t.approved(ctx)
	case driver.KindFiles:
		return t.filesSettled(ctx, a)
	}
	return Round{}, t.moreDue()
}

// moreDue gives the step a new nonce when it needs another input besides the
// one that was answered just now, which is then shown, not missed.
func (t *turn) moreDue() error {
	if !slices.ContainsFunc(t.Run.Step.Inputs, func(in driver.Input) bool { return in.Kind != driver.KindSimilarity }) {
		return nil
	}
	return t.setAside()
}

// setAside is done with the submission, whose nonce can then not be used for
// what the step needs next.
func (t *turn) setAside() error {
	t.taken()
	t.solution, t.target = nil, 0
	return t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce()})
}

// approved shows the step again, with a new nonce, now that it may be worked on.
func (t *turn) approved(ctx context.Context) (Round, error) {
	if err := t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce()}); err != nil {
		return Round{}, err
	}
	t.taken()
	t.note = plain.Sentences(t.note, fmt.Sprintf("Step %d is approved.", t.Run.Step.Index))
	if t.Run.Step.Early != nil {
		t.note = plain.Sentences(t.note, uncounted)
	}
	// The work was approved just now, so what was submitted before is not it.
	t.solution, t.target = nil, 0
	return t.presentOpen(ctx)
}

// maxValue bounds an answer.
const maxValue = 8 << 20

// doubt says what is wrong with an answer that a driver vouches for; drivers
// are not trusted to claim more than their descriptor allows.
func (t *turn) doubt(in driver.Input, a driver.Answer, via string) string {
	desc, _, _ := t.e.Drivers.Describe(via)
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
	return t.barred(in, via)
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
