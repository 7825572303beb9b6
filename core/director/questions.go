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
	return qs.t.links.linkHolds(q) && q.Elsewhere != "" && q.Input.ID == in.ID && q.Via == r.Via && qs.t.links.served()
}

// leaveToPage records that a person answers at the link, and gives the link to the agent.
func (qs *questions) leaveToPage(ctx context.Context, k input.Task, q run.Question, r decision.Route, link *run.ApprovalLink, e driver.Elsewhere) (Round, error) {
	desc, _, _ := qs.t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureHuman) || link == nil || !qs.t.links.answerable(k) {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, "leaves the answer to a page without a person or a link", 0)
	}
	said, err := qs.t.links.conceal(link, e.Message)
	if err != nil {
		return Round{}, err
	}
	q.Link, q.Elsewhere = link, cmp.Or(plain.Clip(said, 1000), "A person has to approve this. Show them the link.")
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

// viaClient asks the client, if this call may, or takes what the driver knows itself.
func (qs *questions) viaClient(ctx context.Context, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, error) {
	if qs.answeredElsewhere(in, r) {
		return qs.pend(qs.waiting(ctx, k, *qs.t.Run.Step.Question))
	}
	if !qs.mayAsk(k, in, desc) && (qs.t.caller.Detached || !input.Of(in.Kind).Judges) {
		return qs.t.replies.presentDriven(ctx, k, in)
	}
	if by, no := qs.t.Run.Step.Declines[in.ID]; no && qs.t.Run.Step.DeclineCount >= maxDeclines {
		return Round{}, fault.New(fault.UserDeclined, "A person declined through %s, and was asked often enough.", by)
	}
	times, dismissed := 1, 0
	earlier := qs.t.Run.Step.Superseded
	if q := qs.t.Run.Step.Question; q != nil && q.Input.ID == in.ID && q.Route == r.Index {
		// A question that does not say that work was submitted meanwhile is asked anew.
		sameWords := !input.Of(in.Kind).Approves || q.Input.Description == in.Description
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
	// The input of a run has no type, and what an agent reports of an approval has its own.
	reported := input.Of(in.Kind).Approves && qs.t.approvals.reported
	if s := qs.t.solution; s != nil && s.Type != "" && s.Type != k.Common.Type && !input.Of(in.Kind).OfRun && !reported {
		return qs.t.replies.refuse(ctx, fault.TypeMismatch,
			fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.Common.Type, s.Type))
	}
	q := run.Question{
		Phrase: qs.t.approvals.phraseIn(k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: times, Earlier: earlier, Dismissed: dismissed, Short: strings.Contains(in.Description, input.ReadMark),
	}
	return qs.render(ctx, k, q, r, nil)
}

// mayAsk: nobody is asked when nobody waits, about a second input in one call, or
// before the work is done, unless the step brings its own prompt for a model. What
// drivers may do is asked right behind the run's input. A judge comes when it is done; where a driver judges without the client,
// render finds out. Files are looked at right behind the evidence: that disturbs
// no person.
func (qs *questions) mayAsk(k input.Task, in driver.Input, desc driver.Descriptor) bool {
	if input.Of(in.Kind).Quiet && !desc.Has(driver.FeatureHuman) {
		return !qs.t.caller.Detached
	}
	second := qs.asked != subject{} && qs.asked != subject{qs.t.Run.Step.Index, in.ID}
	if qs.t.caller.Detached || second && !input.Of(in.Kind).Optional {
		return false
	}
	return k.Where.Index == qs.t.target || k.Common.Sampling != nil || input.Of(in.Kind).OfRun || input.Of(in.Kind).Judges
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
	var err error
	link := qs.t.links.linkFor(in)
	address := ""
	if qs.t.links.answerable(k) {
		if address, err = qs.t.links.linkTo(link); err != nil {
			return Round{}, err
		}
	}
	where, err := qs.t.links.reveal(link, qs.t.links.whereToRead(link))
	if err != nil {
		return Round{}, err
	}
	in.Description = strings.ReplaceAll(in.Description, input.ReadMark, where)
	c, recovering, err := qs.t.calls.ready(ctx, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return Round{}, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if diagnostics == nil {
		diagnostics = qs.t.Run.Step.Refused[in.ID]
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.Where, Client: qs.t.caller.Client, Links: driver.Links{Approval: address}, Diagnostics: diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled, Plan: qs.t.granting.planOf(r.Via),
	})
	l := later{res.Pending, res.Unknown, res.NotDone}
	if err == nil {
		err = qs.t.calls.breach(c, recovering, l)
	}
	if lost, err := qs.t.calls.lost(c, recovering, l, err); lost || err != nil {
		cost.spend() // perhaps
		return Round{}, err
	}
	return qs.rendered(ctx, k, q, r, rendering{call: c, res: res, err: err, cost: cost, link: link, diagnostics: diagnostics})
}

// rendering is what a capability driver made of an input.
type rendering struct {
	call        run.Call
	res         driver.RenderResult
	err         error
	cost        *expense
	link        *run.ApprovalLink
	diagnostics []driver.Diagnostic
}

// rendered sends the question that a driver made, or takes what it answered without one.
func (qs *questions) rendered(ctx context.Context, k input.Task, q run.Question, r decision.Route, made rendering) (Round, error) {
	if (made.err != nil || made.res.Unavailable != nil) && (short{qs}).possible(q) {
		return (short{qs}).ask(ctx, k, q, r)
	}
	if made.err != nil {
		return Round{}, qs.failed(ctx, q, r, made)
	}
	res, in, approves := made.res, q.Input, input.Of(q.Input.Kind).Approves
	switch {
	case res.Pending != nil:
		made.cost.spend()
		return qs.t.calls.deferCall(ctx, made.call, *res.Pending, qs.t.Run.Step.State)
	case res.ClientRequest != nil:
		return qs.send(ctx, k, q, r, made)
	case res.Invalid != nil:
		made.cost.spend()
		return qs.invalid(ctx, k, q, r, res.Invalid.Diagnostics)
	case res.ClientReview != nil && approves:
		return Round{}, qs.t.approvals.leaveToReview(ctx, r)
	case res.Elsewhere != nil && approves:
		return qs.leaveToPage(ctx, k, q, r, made.link, *res.Elsewhere)
	case res.Answer != nil:
		made.cost.spend()
		return qs.t.obtaining.supply(ctx, k, in, r, *res.Answer)
	case res.Unavailable != nil:
		if res.Unavailable.Asked {
			made.cost.spend()
		}
		return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, qs.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// failed leaves the route of a driver that failed to render.
func (qs *questions) failed(ctx context.Context, q run.Question, r decision.Route, made rendering) error {
	if qs.t.Run.Step.Call != nil {
		// The wait continues: another route must not get around it.
		return fault.Wrap(made.err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, qs.t.Run.Step.Index, plain.Clip(made.err.Error(), 600))
	}
	made.cost.spend() // perhaps
	return qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, made.err.Error(), 0)
}

// send puts the driver's request to the client, if this client takes it and this
// call may ask.
func (qs *questions) send(ctx context.Context, k input.Task, q run.Question, r decision.Route, made rendering) (Round, error) {
	desc, _, _ := qs.t.e.Drivers.Describe(r.Via)
	needs, unsendable := demands(desc, qs.t.caller.Client, *made.res.ClientRequest)
	if unsendable != nil {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, unsendable.outcome, unsendable.why, 0)
	}
	if sentToAddress(*made.res.ClientRequest) && input.Of(q.Input.Kind).Approves && !qs.t.links.answerable(k) {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Unavailable, "the client shows no forms, and there is no link for an answer that counts", 0)
	}
	if q.Seq == 0 && !qs.mayAsk(k, q.Input, desc) {
		if err := qs.t.calls.settle("a question to the client, which this call may not ask"); err != nil {
			return Round{}, err
		}
		return qs.t.replies.presentDriven(ctx, k, q.Input)
	}
	made.cost.spend()
	request, err := readable(*made.res.ClientRequest)
	if err != nil && (short{qs}).possible(q) {
		return (short{qs}).ask(ctx, k, q, r)
	}
	if err != nil {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, "its request is not sound JSON: "+err.Error(), 0)
	}
	concealed, err := qs.t.links.conceal(made.link, string(request.Params))
	if err != nil {
		return Round{}, err
	}
	request.Params = json.RawMessage(concealed)
	q.Needs, q.Link = needs, qs.t.links.kept(made.link, concealed)
	return qs.question(ctx, q, r, request, made.diagnostics)
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
	if len(q.Needs) == 0 { // what was not recorded is a request that MCP defines
		var err error
		if q.Needs, err = (driver.Descriptor{}).Demands(q.Ask); err != nil {
			return Round{}, fmt.Errorf("find out what a client needs for a question: %w", err)
		}
	}
	wait := qs.t.caller.CanWait
	if r.Timeout > 0 && r.Timeout < wait {
		wait = r.Timeout
	}
	params, err := qs.t.links.reveal(q.Link, string(q.Ask.Params))
	if err != nil {
		return Round{}, err
	}
	return Round{Ask: &Ask{
		Run: qs.t.Run.ID, Seq: q.Seq, Method: q.Ask.Method, Params: json.RawMessage(params), Needs: q.Needs, Wait: wait, Human: q.Human,
		Linked: q.Link != nil && !q.Link.ReadOnly,
	}}, nil
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
	if input.Of(q.Input.Kind).Approves {
		with = "with the placeholder solution of next_call"
		if qs.t.solution.supplied() {
			r.Message = plain.Sentences(r.Message, uncounted)
		}
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if qs.t.links.linkHolds(&q) {
		r.ApprovalURL = qs.t.links.marked(q.Link)
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

// maxDeclines is how often a person who declined is asked again before the decline is final.
const maxDeclines = 3
