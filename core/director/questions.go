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
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// leaveToPage records that a person answers at the link, and gives the link to the agent.
func leaveToPage(ctx context.Context, t *turn, k input.Task, q run.Question, r decision.Route, link *run.ApprovalLink, e driver.Elsewhere) (Round, error) {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureHuman) || link == nil || !plan.Answerable(t.State, k) {
		return Round{}, closeRoute(ctx, t, q.Input.ID, r, decision.Errored, "leaves the answer to a page without a person or a link", 0)
	}
	said, err := conceal(t, link, e.Message)
	if err != nil {
		return Round{}, err
	}
	q.Link, q.Elsewhere = link, cmp.Or(plain.Clip(said, 1000), "A person has to approve this. Show them the link.")
	if err := put(t, &q, run.Event{Kind: run.Asked}); err != nil {
		return Round{}, err
	}
	return waiting(ctx, t, k, q)
}

// openedPage: the person was sent to the page, so their answer comes from there.
func openedPage(ctx context.Context, t *turn, k input.Task, q run.Question) (Round, error) {
	asked := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), q.Seq)
	q.Elsewhere = "The person was sent to the approval page and has not answered there yet. If they have lost it, show them the link."
	q.Ask = driver.ClientRequest{}
	if err := put(t, &q, run.Event{Kind: run.Repaired, Seq: asked}); err != nil {
		return Round{}, err
	}
	round, err := waiting(ctx, t, k, *t.Run.Step.Question)
	return pend(t, round, err)
}

// pend adds to a reply that its call may wait for the person's answer.
func pend(t *turn, round Round, err error) (Round, error) {
	if q := t.Run.Step.Question; err == nil && q != nil && !t.Caller.Detached && t.Failure == nil {
		round.Pending = &Pending{Run: t.Run.ID, Seq: q.Seq, Solved: len(t.Solved)}
	}
	return round, err
}

// viaClient asks the client, if this call may, or takes what the driver knows itself.
func viaClient(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, error) {
	if plan.AnsweredElsewhere(t.State, in, r) {
		round, err := waiting(ctx, t, k, *t.Run.Step.Question)
		return pend(t, round, err)
	}
	if !plan.MayAsk(t.State, k, in, desc) && (t.Caller.Detached || !input.Of(in.Kind).Judges) {
		return presentDriven(ctx, t, k, in)
	}
	if by, no := t.Run.Step.Declines[in.ID]; no && t.Run.Step.DeclineCount >= maxDeclines {
		return Round{}, fault.New(fault.UserDeclined, "A person declined through %s, and was asked often enough.", by)
	}
	times, dismissed := 1, 0
	earlier := t.Run.Step.Superseded
	if q := t.Run.Step.Question; q != nil && q.Input.ID == in.ID && q.Route == r.Index {
		// A question that does not say that work was submitted meanwhile is asked anew.
		sameWords := !input.Of(in.Kind).Approves || q.Input.Description == in.Description
		if sameWords && t.Caller.Holding != nil && t.Caller.Holding(t.Run.ID, q.Seq) {
			return ask(ctx, t, *q, r)
		}
		if plan.GivenUp(t.State, *q) {
			return Round{}, abandon(ctx, t, *q, r)
		}
		if plan.LeftAlone(t.State, *q) {
			return waiting(ctx, t, k, *q)
		}
		times, dismissed = q.Asked+1, q.Dismissed
		earlier = append(slices.Clone(q.Earlier), q.Seq)
	}
	// The input of a run has no type, and what an agent reports of an approval has its own.
	reported := input.Of(in.Kind).Approves && t.Reported
	if s := t.Solution; s != nil && s.Type != "" && s.Type != k.Common.Type && !input.Of(in.Kind).OfRun && !reported {
		return refuse(ctx, t, fault.TypeMismatch,
			fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.Common.Type, s.Type))
	}
	q := run.Question{
		Phrase: plan.PhraseIn(t.State, k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: times, Earlier: earlier, Dismissed: dismissed, Short: strings.Contains(in.Description, input.ReadMark),
	}
	return render(ctx, t, k, q, r, nil)
}

// render lets the capability driver put the question and sends it, or takes
// what it answers without asking. Diagnostics are set when a reply was invalid.
func render(ctx context.Context, t *turn, k input.Task, q run.Question, r decision.Route, diagnostics []driver.Diagnostic) (Round, error) {
	drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok && t.Run.Step.Call != nil {
		return Round{}, plan.Unavailable("driver %s, which step %d waits for, is not configured", r.Via, t.Run.Step.Index)
	}
	if !ok {
		return Round{}, closeRoute(ctx, t, q.Input.ID, r, decision.Unavailable, "driver is not configured", 0)
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
		return Round{}, closeRoute(ctx, t, in.ID, r, decision.Exhausted, why, q.Seq)
	}
	var err error
	link := linkFor(t, in)
	address := ""
	if plan.Answerable(t.State, k) {
		if address, err = linkTo(t, link); err != nil {
			return Round{}, err
		}
	}
	where, err := reveal(t, link, plan.WhereToRead(t.State, link))
	if err != nil {
		return Round{}, err
	}
	in.Description = strings.ReplaceAll(in.Description, input.ReadMark, where)
	c, recovering, err := ready(ctx, t, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return Round{}, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if diagnostics == nil {
		diagnostics = t.Run.Step.Refused[in.ID]
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.Where, Client: t.Caller.Client, Links: driver.Links{Approval: address}, Diagnostics: diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled, Plan: plan.PlanOf(t.State, r.Via),
	})
	l := plan.Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}
	t.tick()
	if err == nil {
		err = plan.Breach(t.State, c, recovering, l)
	}
	if lost, err := lost(t, c, recovering, l, err); lost || err != nil {
		cost.spend() // perhaps
		return Round{}, err
	}
	return rendered(ctx, t, k, q, r, rendering{call: c, res: res, err: err, cost: cost, link: link, diagnostics: diagnostics})
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
func rendered(ctx context.Context, t *turn, k input.Task, q run.Question, r decision.Route, made rendering) (Round, error) {
	if (made.err != nil || made.res.Unavailable != nil) && shortPossible(t, q) {
		return askShort(ctx, t, k, q, r)
	}
	if made.err != nil {
		return Round{}, failedRender(ctx, t, q, r, made)
	}
	res, in, approves := made.res, q.Input, input.Of(q.Input.Kind).Approves
	switch {
	case res.Pending != nil:
		made.cost.spend()
		return deferCall(ctx, t, made.call, *res.Pending, t.Run.Step.State)
	case res.ClientRequest != nil:
		return send(ctx, t, k, q, r, made)
	case res.Invalid != nil:
		made.cost.spend()
		return invalid(ctx, t, k, q, r, res.Invalid.Diagnostics)
	case res.ClientReview != nil && approves:
		return Round{}, leaveToReview(ctx, t, r)
	case res.Elsewhere != nil && approves:
		return leaveToPage(ctx, t, k, q, r, made.link, *res.Elsewhere)
	case res.Answer != nil:
		made.cost.spend()
		return supply(ctx, t, k, in, r, *res.Answer)
	case res.Unavailable != nil:
		if res.Unavailable.Asked {
			made.cost.spend()
		}
		return Round{}, closeRoute(ctx, t, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, closeRoute(ctx, t, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// failedRender leaves the route of a driver that failed to render.
func failedRender(ctx context.Context, t *turn, q run.Question, r decision.Route, made rendering) error {
	if t.Run.Step.Call != nil {
		// The wait continues: another route must not get around it.
		return fault.Wrap(made.err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, t.Run.Step.Index, plain.Clip(made.err.Error(), 600))
	}
	made.cost.spend() // perhaps
	return closeRoute(ctx, t, q.Input.ID, r, decision.Errored, made.err.Error(), 0)
}

// send puts the driver's request to the client, if this client takes it and this
// call may ask.
func send(ctx context.Context, t *turn, k input.Task, q run.Question, r decision.Route, made rendering) (Round, error) {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	needs, unsendable := demands(desc, t.Caller.Client, *made.res.ClientRequest)
	if unsendable != nil {
		return Round{}, closeRoute(ctx, t, q.Input.ID, r, unsendable.outcome, unsendable.why, 0)
	}
	if sentToAddress(*made.res.ClientRequest) && input.Of(q.Input.Kind).Approves && !plan.Answerable(t.State, k) {
		return Round{}, closeRoute(ctx, t, q.Input.ID, r, decision.Unavailable, "the client shows no forms, and there is no link for an answer that counts", 0)
	}
	if q.Seq == 0 && !plan.MayAsk(t.State, k, q.Input, desc) {
		if err := settleCall(t, "a question to the client, which this call may not ask"); err != nil {
			return Round{}, err
		}
		return presentDriven(ctx, t, k, q.Input)
	}
	made.cost.spend()
	request, err := readable(*made.res.ClientRequest)
	if err != nil && shortPossible(t, q) {
		return askShort(ctx, t, k, q, r)
	}
	if err != nil {
		return Round{}, closeRoute(ctx, t, q.Input.ID, r, decision.Errored, "its request is not sound JSON: "+err.Error(), 0)
	}
	concealed, err := conceal(t, made.link, string(request.Params))
	if err != nil {
		return Round{}, err
	}
	request.Params = json.RawMessage(concealed)
	q.Needs, q.Link = needs, plan.KeptLink(t.State, made.link, concealed)
	return askQuestion(ctx, t, q, r, request, made.diagnostics)
}

// askQuestion records a question and then asks it.
func askQuestion(ctx context.Context, t *turn, q run.Question, r decision.Route, req driver.ClientRequest, diagnostics []driver.Diagnostic) (Round, error) {
	kind, seq := run.Asked, q.Seq
	if seq != 0 {
		kind = run.Repaired
	}
	q.Ask, q.Elsewhere = req, ""
	if err := put(t, &q, run.Event{Kind: kind, Seq: seq, Diagnostics: diagnostics}); err != nil {
		return Round{}, err
	}
	t.record(json.RawMessage(fmt.Sprintf(`{"asks":%d}`, q.Seq)))
	return ask(ctx, t, q, r)
}

// put records a question under a number of its own. The event's number is that of
// the question in whose place it comes, if any.
func put(t *turn, q *run.Question, ev run.Event) error {
	q.Unheard, q.Note = len(t.Solved), t.Note
	if old := t.Run.Step.Question; old != nil {
		q.Unheard = max(q.Unheard, old.Unheard)
	}
	q.Seq, q.Since = t.Run.Seq+1, t.Started
	q.Digest, q.Client = t.Run.Step.Digest, t.Caller.Client
	q.AskedAt, q.Driver = t.change.Now(), plan.Ref(t.State, q.Via)
	ev.Question, ev.Input, ev.Via = q, q.Input.ID, q.Via
	if err := t.apply(ev); err != nil {
		return err
	}
	t.Asked = plan.Subject{Step: t.Run.Step.Index, Input: q.Input.ID}
	return nil
}

func ask(ctx context.Context, t *turn, q run.Question, r decision.Route) (Round, error) {
	if err := t.save(ctx); err != nil {
		return Round{}, err
	}
	if t.Caller.Asked != nil {
		t.Caller.Asked(t.Run.ID, q.Seq)
	}
	if len(q.Needs) == 0 { // what was not recorded is a request that MCP defines
		var err error
		if q.Needs, err = (driver.Descriptor{}).Demands(q.Ask); err != nil {
			return Round{}, fmt.Errorf("find out what a client needs for a question: %w", err)
		}
	}
	wait := t.Caller.CanWait
	if r.Timeout > 0 && r.Timeout < wait {
		wait = r.Timeout
	}
	params, err := reveal(t, q.Link, string(q.Ask.Params))
	if err != nil {
		return Round{}, err
	}
	return Round{Ask: &Ask{
		Run: t.Run.ID, Seq: q.Seq, Method: q.Ask.Method, Params: json.RawMessage(params), Needs: q.Needs, Wait: wait, Human: q.Human,
		Linked: q.Link != nil && !q.Link.ReadOnly,
	}}, nil
}

func waiting(ctx context.Context, t *turn, k input.Task, q run.Question) (Round, error) {
	r := plan.View(t.State).Reply(plan.OpenStep(t.State), plan.ShownAsIs(t.State, k, q.Input))
	r.ErrorCode = string(fault.WaitingForUser)
	r.RetryCount = &t.Run.Step.Failures
	where := []string{"in the client that was asked"}
	if !q.Closed.IsZero() {
		where = nil // the client shows it no more
	}
	with := "with the same solution"
	if input.Of(q.Input.Kind).Approves {
		with = "with the placeholder solution of next_call"
		if t.Solution.Supplied() {
			r.Message = plain.Sentences(r.Message, plan.Uncounted)
		}
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if plan.LinkHolds(t.State, &q) {
		r.ApprovalURL = plan.Marked(t.State, q.Link)
		where = append(where, "on the approval page "+r.ApprovalURL)
	}
	said := "The person was asked and has not answered yet."
	switch {
	case !q.Human:
		said = "The client was asked and has not answered yet."
	case !q.Closed.IsZero():
		said, r.NextAction = plan.Dismissal(t.State, q, r.NextAction)
	}
	if q.Elsewhere != "" {
		said, where = plain.Sentences(q.Elsewhere, "Nobody has answered yet."), []string{"on the approval page " + r.ApprovalURL}
		r.NextAction = fmt.Sprintf("show the person approval_url, then call kairos_next with %s again, %s; "+
			"the link is theirs alone, and good until %s", r.CurrentStep.URI, with, q.Link.ExpiresAt.UTC().Format(time.RFC3339))
	}
	open := strings.TrimSpace("The question stays open " + strings.Join(where, ", and "))
	r.Message = plain.Sentences(r.Message, said, open+"; calling kairos_next again continues it")
	r.NextCall = plan.View(t.State).LeaveToServer(r.Challenge.Type)
	return t.reply(ctx, r)
}

// maxDeclines is how often a person who declined is asked again before the decline is final.
const maxDeclines = 3
