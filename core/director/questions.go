package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// leaveToPage records that a person answers at the link, and gives the link to the agent.
func leaveToPage(t *turn, k *input.Task, q run.Question, r decision.Route, link *run.ApprovalLink, e driver.Elsewhere) (plan.Action, error) {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureHuman) || link == nil || !plan.Answerable(t.State, k) {
		return plan.Close(t.State, q.Input.ID, r, decision.Errored, "leaves the answer to a page without a person or a link", 0), nil
	}
	said, err := conceal(t, link, e.Message)
	if err != nil {
		return nil, err
	}
	q.Link, q.Elsewhere = link, cmp.Or(plain.Clip(said, 1000), "A person has to approve this. Show them the link.")
	if err := put(t, &q, run.Event{Kind: run.Asked}); err != nil {
		return nil, err
	}
	return plan.Wait{Task: k, Question: &q}, nil
}

// openedPage: the person was sent to the page, so their answer comes from there.
func openedPage(t *turn, k *input.Task, q run.Question) (plan.Action, error) {
	asked := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), q.Seq)
	q.Elsewhere = "The person was sent to the approval page and has not answered there yet. If they have lost it, show them the link."
	q.Ask = driver.ClientRequest{}
	if err := put(t, &q, run.Event{Kind: run.Repaired, Seq: asked}); err != nil {
		return nil, err
	}
	return plan.Wait{Task: k, Question: t.Run.Step.Question, Meanwhile: true}, nil
}

// render lets the capability driver put the question and sends it, or takes
// what it answers without asking. Diagnostics are set when a reply was invalid.
func render(ctx context.Context, t *turn, a plan.Call) (plan.Action, error) {
	k, q, r, diagnostics := a.Task, *a.Question, a.Route, a.Diagnostics
	drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok && t.Run.Step.Call != nil {
		return nil, plan.Unavailable("driver %s, which step %d waits for, is not configured", r.Via, t.Run.Step.Index)
	}
	if !ok {
		return plan.Close(t.State, q.Input.ID, r, decision.Unavailable, "driver is not configured", 0), nil
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
		return plan.Close(t.State, in.ID, r, decision.Exhausted, why, q.Seq), nil
	}
	var err error
	link := linkFor(t, in)
	address := ""
	if plan.Answerable(t.State, k) {
		if address, err = linkTo(t, link); err != nil {
			return nil, err
		}
	}
	where, err := reveal(t, link, plan.WhereToRead(t.State, link))
	if err != nil {
		return nil, err
	}
	in.Description = strings.ReplaceAll(in.Description, input.ReadMark, where)
	c, recovering, err := ready(ctx, t, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return nil, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if diagnostics == nil {
		diagnostics = t.Run.Step.Refused[in.ID]
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.Where, Client: t.Caller.Client, Links: driver.Links{Approval: address}, Diagnostics: diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled, Plan: plan.Stated(t.State, r.Via),
	})
	l := plan.Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}
	t.tick()
	if err == nil {
		err = plan.Breach(t.State, c, recovering, l)
	}
	if lost, err := lost(t, c, recovering, l, err); lost || err != nil {
		cost.spend() // perhaps
		return nil, err
	}
	return rendered(t, k, q, r, rendering{call: c, res: res, err: err, cost: cost, link: link, diagnostics: diagnostics})
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
func rendered(t *turn, k *input.Task, q run.Question, r decision.Route, made rendering) (plan.Action, error) {
	if (made.err != nil || made.res.Unavailable != nil) && shortPossible(t, q) {
		return askShort(t, k, q, r), nil
	}
	if made.err != nil {
		return failedRender(t, q, r, made)
	}
	res, in, approves := made.res, q.Input, input.Of(q.Input.Kind).Approves
	switch {
	case res.Pending != nil:
		made.cost.spend()
		return deferCall(t, made.call, *res.Pending, t.Run.Step.State)
	case res.ClientRequest != nil:
		return send(t, k, q, r, made)
	case res.Invalid != nil:
		made.cost.spend()
		return plan.AskAgainBetter(t.State, k, q, r, res.Invalid.Diagnostics), nil
	case res.ClientReview != nil && approves:
		return leaveToReview(t, r)
	case res.Elsewhere != nil && approves:
		return leaveToPage(t, k, q, r, made.link, *res.Elsewhere)
	case res.Answer != nil:
		made.cost.spend()
		return plan.Supplied(t.State, k, in, r, *res.Answer), nil
	case res.Unavailable != nil:
		if res.Unavailable.Asked {
			made.cost.spend()
		}
		return plan.Close(t.State, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0), nil
	}
	return plan.Close(t.State, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0), nil
}

// failedRender leaves the route of a driver that failed to render.
func failedRender(t *turn, q run.Question, r decision.Route, made rendering) (plan.Action, error) {
	if t.Run.Step.Call != nil {
		// The wait continues: another route must not get around it.
		return nil, fault.Wrap(made.err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, t.Run.Step.Index, plain.Clip(made.err.Error(), 600))
	}
	made.cost.spend() // perhaps
	return plan.Close(t.State, q.Input.ID, r, decision.Errored, made.err.Error(), 0), nil
}

// send puts the driver's request to the client, if this client takes it and this
// call may ask.
func send(t *turn, k *input.Task, q run.Question, r decision.Route, made rendering) (plan.Action, error) {
	desc, _, _ := t.e.Drivers.Describe(r.Via)
	needs, unsendable := demands(desc, t.Caller.Client, *made.res.ClientRequest)
	if unsendable != nil {
		return plan.Close(t.State, q.Input.ID, r, unsendable.outcome, unsendable.why, 0), nil
	}
	if sentToAddress(*made.res.ClientRequest) && input.Of(q.Input.Kind).Approves && !plan.Answerable(t.State, k) {
		return plan.Close(t.State, q.Input.ID, r, decision.Unavailable, "the client shows no forms, and there is no link for an answer that counts", 0), nil
	}
	if q.Seq == 0 && !plan.MayAsk(t.State, k, q.Input, desc) {
		if err := settleCall(t, "a question to the client, which this call may not ask"); err != nil {
			return nil, err
		}
		return plan.Reply{StepReply: plan.DrivenReply(t.State, k, q.Input)}, nil
	}
	made.cost.spend()
	request, err := readable(*made.res.ClientRequest)
	if err != nil && shortPossible(t, q) {
		return askShort(t, k, q, r), nil
	}
	if err != nil {
		return plan.Close(t.State, q.Input.ID, r, decision.Errored, "its request is not sound JSON: "+err.Error(), 0), nil //nolint:nilerr // the route is closed with the error
	}
	concealed, err := conceal(t, made.link, string(request.Params))
	if err != nil {
		return nil, err
	}
	request.Params = json.RawMessage(concealed)
	q.Needs, q.Link = needs, plan.KeptLink(t.State, made.link, concealed)
	return askQuestion(t, q, r, request, made.diagnostics)
}

// askQuestion records a question and then asks it.
func askQuestion(t *turn, q run.Question, r decision.Route, req driver.ClientRequest, diagnostics []driver.Diagnostic) (plan.Action, error) {
	kind, seq := run.Asked, q.Seq
	if seq != 0 {
		kind = run.Repaired
	}
	q.Ask, q.Elsewhere = req, ""
	if err := put(t, &q, run.Event{Kind: kind, Seq: seq, Diagnostics: diagnostics}); err != nil {
		return nil, err
	}
	t.record(json.RawMessage(fmt.Sprintf(`{"asks":%d}`, q.Seq)))
	return plan.Ask{Question: q, Route: r}, nil
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

// ask saves the question before it is sent.
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
