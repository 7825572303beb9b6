package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// questions puts questions to the client and takes its answers.
type questions struct {
	t *turn
	// asked is what the one question this call put to the client is about.
	asked subject
}

// answeredElsewhere reports whether the open question is this one and waits for
// a person at its link, so that nobody is asked anew.
func (qs *questions) answeredElsewhere(in driver.Input, r decision.Route) bool {
	q := qs.t.Run.Step.Question
	return qs.t.links.linkHolds(q) && q.Elsewhere != "" && q.Input.ID == in.ID && q.Via == r.Via && qs.t.links.linkTo(q.Link) != ""
}

// leaveToPage records that a person answers at the link, and gives the link to the agent.
func (qs *questions) leaveToPage(ctx context.Context, k input.Task, q run.Question, r decision.Route, link *run.ApprovalLink, e driver.Elsewhere) (Round, error) {
	desc, _, _ := qs.t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureHuman) || qs.t.links.linkTo(link) == "" {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, "leaves the answer to a page without a person or a link", 0)
	}
	q.Link, q.Elsewhere = link, cmp.Or(plain.Clip(e.Message, 1000), "A person has to approve this. Show them the link.")
	if err := qs.put(&q, run.Event{Kind: run.Asked}); err != nil {
		return Round{}, err
	}
	return qs.waiting(ctx, k, q)
}

// openedPage: the person was sent to the page, so their answer comes from there.
func (qs *questions) openedPage(ctx context.Context, k input.Task, q run.Question) (Round, error) {
	asked := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), q.Seq)
	q.Elsewhere = "The person was sent to the approval page and has not answered there yet. If they have lost it, show them the link."
	q.Ask = driver.ClientRequest{}
	if err := qs.put(&q, run.Event{Kind: run.Repaired, Seq: asked}); err != nil {
		return Round{}, err
	}
	return qs.pend(qs.waiting(ctx, k, *qs.t.Run.Step.Question))
}

// pend adds to a reply that its call may wait for the person's answer.
func (qs *questions) pend(round Round, err error) (Round, error) {
	if q := qs.t.Run.Step.Question; err == nil && q != nil && !qs.t.caller.Detached && qs.t.replies.failure == nil {
		round.Pending = &Pending{Run: qs.t.Run.ID, Seq: q.Seq, Solved: len(qs.t.replies.solved)}
	}
	return round, err
}

// askedInVain counts a round without an answer, and decides what follows.
func (qs *questions) askedInVain(ctx context.Context, q run.Question) (Round, error) {
	k, err := qs.askedTask(ctx, q)
	if err != nil {
		return Round{}, err
	}
	r := qs.t.e.routeOf(q)
	switch {
	case qs.givenUp(q):
		return Round{}, qs.abandon(ctx, q, r)
	case q.Unanswered+1 >= maxUnanswered:
		return qs.waiting(ctx, k, q)
	}
	if err := qs.t.apply(run.Event{Kind: run.Unanswered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via}); err != nil {
		return Round{}, err
	}
	return qs.ask(ctx, *qs.t.Run.Step.Question, r)
}

// givenUp reports whether nobody is asked the question again, because it went
// out often enough. A person's question is never given up, and none is where
// the tree says so.
func (qs *questions) givenUp(q run.Question) bool {
	return !q.Human && q.Asked+q.Unanswered >= maxUnanswered && qs.t.e.Tree.On(qs.t.e.routeOf(q), decision.Abandoned).Kind != decision.Again
}

func (qs *questions) abandon(ctx context.Context, q run.Question, r decision.Route) error {
	return qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Abandoned, "asked twice, never answered", q.Seq)
}

// viaClient asks the client, if this call may, or takes what the driver knows itself.
func (qs *questions) viaClient(ctx context.Context, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, error) {
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
	if s := qs.t.solution; s != nil && s.Type != "" && s.Type != k.Common.Type && in.Kind != driver.KindRunInput {
		return qs.t.replies.refuse(ctx, fault.TypeMismatch,
			fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.Common.Type, s.Type))
	}
	q := run.Question{
		Phrase: qs.t.approvals.phraseIn(k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: times, Earlier: earlier, Dismissed: dismissed,
	}
	return qs.render(ctx, k, q, r, nil)
}

// mayAsk: nobody is asked when nobody waits, about a second input in one call,
// or before the work is done, unless the step brings its own prompt for a model.
// A judge comes when it is done; where one that is no client can be had at once,
// render finds out. Files are looked at right behind the evidence: that disturbs
// no person.
func (qs *questions) mayAsk(k input.Task, in driver.Input, desc driver.Descriptor) bool {
	if in.Kind == driver.KindFiles && !desc.Has(driver.FeatureHuman) {
		return !qs.t.caller.Detached
	}
	if qs.t.caller.Detached || (qs.asked != subject{} && qs.asked != subject{qs.t.Run.Step.Index, in.ID}) {
		return false
	}
	return k.Where.Index == qs.t.target || k.Common.Sampling != nil || in.Kind == driver.KindRunInput || in.Kind == driver.KindJudge
}

// render lets the capability driver put the question and sends it, or takes
// what it answers without asking. Diagnostics are set when a reply was invalid.
func (qs *questions) render(ctx context.Context, k input.Task, q run.Question, r decision.Route, diagnostics []driver.Diagnostic) (Round, error) {
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
		Input: in, Step: k.Where, Client: qs.t.caller.Client, Links: driver.Links{Approval: qs.t.links.linkTo(link)}, Diagnostics: diagnostics,
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

// read lets the capability driver that asked, or what has its name now, read
// the client's reply.
func (qs *questions) read(ctx context.Context, k input.Task, q run.Question, in Continuation) (driver.InterpretResult, error) {
	drv, ok := qs.t.e.Drivers.Capability(q.Via, qs.t.e.routeOf(q).CallTimeout)
	if !ok {
		return driver.CannotInterpret("the driver is not configured any more"), nil
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: q.Input, Step: k.Where, Client: q.Client, Raw: in.Result, ClientError: in.Error, IdempotencyKey: q.Key, Attempt: q.Attempt,
	})
	if res.Answer != nil && q.Input.Kind == driver.KindApproval && sentToAddress(q.Ask) {
		// Such a question shows an address and no form: nobody saw what a yes is to.
		return driver.LeftOut("the client was asked to open the approval page; the answer comes from there"), err
	}
	return res, err
}

// answer takes the client's reply as its driver reads it.
func (qs *questions) answer(ctx context.Context, q run.Question, in Continuation) (Round, error) {
	k, err := qs.askedTask(ctx, q)
	if err != nil {
		return Round{}, err
	}
	r := qs.t.e.routeOf(q)
	res, err := qs.read(ctx, k, q, in)
	if err == nil && res.Missing != nil && q.Link != nil {
		return qs.openedPage(ctx, k, q)
	}
	if err == nil && res.Dismissed != nil && q.Human {
		return qs.dismissed(ctx, k, q, res.Dismissed.Reason)
	}
	unread := res.Answer == nil && res.Declined == nil && res.Invalid == nil
	if q.Human && in.Error == nil && (err != nil || unread) {
		// The person has answered, perhaps with a no. Until they are asked again it
		// counts as one, so that nobody else answers in their place.
		no := run.Event{Kind: run.Declined, Input: q.Input.ID, Via: q.Via, Seq: q.Seq, Reason: "the answer could not be read"}
		if err := qs.t.apply(no); err != nil {
			return Round{}, err
		}
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read what the person answered to step %d; call kairos_next again to have them asked again", q.Via, k.Where.Index)
	}
	switch {
	case err != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, err.Error(), q.Seq)
	case res.Answer != nil:
		return qs.answered(ctx, k, q, r, *res.Answer)
	case res.Declined != nil:
		return qs.t.replies.decline(ctx, q.Input, q.Via, res.Declined.Reason, q.Seq)
	case res.Invalid != nil:
		return qs.invalid(ctx, k, q, r, res.Invalid.Diagnostics)
	case res.Unavailable != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, outcomeOf(in), res.Unavailable.Reason, q.Seq)
	case res.Missing != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Invalid, res.Missing.Reason, q.Seq)
	}
	return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, "driver gave no outcome", q.Seq)
}

// askedTask is the task the question is about. When nobody can judge the step
// any more, because its driver was removed meanwhile, it is only where the step
// stands: that is enough to read an answer, which must not be lost.
func (qs *questions) askedTask(ctx context.Context, q run.Question) (input.Task, error) {
	if q.Input.Kind == driver.KindRunInput {
		return input.RunTask(qs.t.Chain), nil
	}
	k, err := qs.t.open(ctx)
	if fault.CodeOf(err) == fault.DriverUnavailable {
		return qs.t.place(), nil
	}
	return k, err
}

func (qs *questions) answered(ctx context.Context, k input.Task, q run.Question, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = q.Input.ID, q.Via
	if problem := qs.t.trust.doubt(q.Input, a, q.Via); problem != "" {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, problem, q.Seq)
	}
	ev := run.Event{Kind: run.Answered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Answer: &a}
	switch q.Input.Kind {
	case driver.KindApproval:
		if !input.Approves(a.Value) {
			return qs.t.replies.decline(ctx, q.Input, q.Via, "not approved", q.Seq)
		}
		if wrong := input.WrongPhrase(q.Phrase, input.Typed(a.Value)); wrong != "" {
			return qs.invalid(ctx, k, q, r, []driver.Diagnostic{driver.Problem("/content/phrase", wrong)})
		}
		ev.Approval = qs.t.approvals.approval(r, a.Provenance, run.BasisForm)
		ev.Approval.Digest, ev.Approval.Typed = q.Digest, q.Phrase != ""
	case driver.KindRunInput:
		merged, err := input.MergeOfRun(qs.t.Run, qs.t.Chain, a.Value)
		if err != nil {
			return qs.invalid(ctx, k, q, r, []driver.Diagnostic{driver.Problem("", err.Error())})
		}
		a.Value = merged
		ev.Answer = &a
	case driver.KindFiles:
		if round, wrong, err := qs.t.obtaining.fileTrouble(ctx, a, r, q.Seq); wrong || err != nil {
			return round, err
		}
	}
	if err := qs.t.apply(ev); err != nil {
		return Round{}, err
	}
	return qs.t.obtaining.settled(ctx, q.Input, a)
}

// invalid asks again with the diagnostics, as often as the route allows, and
// then takes the next route.
func (qs *questions) invalid(ctx context.Context, k input.Task, q run.Question, r decision.Route, ds []driver.Diagnostic) (Round, error) {
	if qs.t.caller.Detached || q.Repairs >= r.Retries {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Invalid, input.Describe(ds), q.Seq)
	}
	repair := q
	repair.Repairs++
	return qs.render(ctx, k, repair, r, ds)
}

func (qs *questions) waiting(ctx context.Context, k input.Task, q run.Question) (Round, error) {
	r := qs.t.replies.view().Reply(qs.t.step(), qs.t.replies.shownAsIs(k, q.Input))
	r.ErrorCode = string(fault.WaitingForUser)
	r.RetryCount = &qs.t.Run.Step.Failures
	where := []string{"in the client that was asked"}
	if !q.Closed.IsZero() {
		where = nil // the client shows it no more
	}
	with := "with the same solution"
	if q.Input.Kind == driver.KindApproval {
		with = "with the placeholder solution of next_call"
		if qs.t.solution.supplied() {
			r.Message = plain.Sentences(r.Message, uncounted)
		}
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if qs.t.links.linkHolds(&q) {
		r.ApprovalURL = qs.t.links.linkTo(q.Link)
		where = append(where, "on the approval page "+r.ApprovalURL)
	}
	said := "The person was asked and has not answered yet."
	switch {
	case !q.Human:
		said = "The client was asked and has not answered yet."
	case !q.Closed.IsZero():
		said, r.NextAction = qs.dismissal(q, r.NextAction)
	}
	if q.Elsewhere != "" {
		said, where = plain.Sentences(q.Elsewhere, "Nobody has answered yet."), []string{"on the approval page " + r.ApprovalURL}
		r.NextAction = fmt.Sprintf("show the person approval_url, then call kairos_next with %s again, %s; "+
			"the link is theirs alone, and good until %s", r.CurrentStep.URI, with, q.Link.ExpiresAt.UTC().Format(time.RFC3339))
	}
	open := strings.TrimSpace("The question stays open " + strings.Join(where, ", and "))
	r.Message = plain.Sentences(r.Message, said, open+"; calling kairos_next again continues it")
	r.NextCall = qs.t.replies.view().LeaveToServer(r.Challenge.Type)
	return qs.t.reply(ctx, r)
}

// dismissed records that the person closed the question without an answer. The
// question stays open, nothing is counted, and no other route is taken: nobody
// else may answer for them.
func (qs *questions) dismissed(ctx context.Context, k input.Task, q run.Question, reason string) (Round, error) {
	closed := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), closed)
	q.Dismissed++
	q.Closed = qs.t.e.opt.Clock.Now()
	if err := qs.put(&q, run.Event{Kind: run.Dismissed, Seq: closed, Reason: plain.Clip(reason, 500)}); err != nil {
		return Round{}, err
	}
	return qs.waiting(ctx, k, q)
}

// leftAlone reports whether the person closed the question so often that nobody
// shows it to them for now.
func (qs *questions) leftAlone(q run.Question) bool {
	return q.Dismissed >= maxDismissals && qs.t.e.opt.Clock.Now().Before(q.Closed.Add(dismissalPause)) && !qs.t.e.runs.SetBack(q.Closed)
}

// dismissal is what a reply says of a closed question, and the action that
// follows from it.
func (qs *questions) dismissal(q run.Question, action string) (said, next string) {
	said = "The person dismissed the question without an answer. Nothing is decided"
	if !qs.leftAlone(q) {
		return said, action + "; the person is then asked again, so do it when they want to answer"
	}
	until := q.Closed.Add(dismissalPause).UTC().Format(time.RFC3339)
	said = fmt.Sprintf("The person dismissed the question %d times in a row without an answer. Nothing is decided, and they are not asked again before %s", q.Dismissed, until)
	return said, action + "; do it only once the person says that they want to answer, and after " + until
}
