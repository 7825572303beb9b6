package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// render has the capability driver put the question, or answer it.
func render(ctx context.Context, t *turn, a plan.Render) (plan.Action, error) {
	q, r, in := *a.Question, a.Route, a.Question.Input
	_, ok := t.setup.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok && t.Run.Step.Call != nil {
		return nil, plan.Unavailable("driver %s, which step %d waits for, is not configured", r.Via, t.Run.Step.Index)
	}
	if !ok {
		return plan.Close(t.State, in.ID, r, decision.Unavailable, "driver is not configured", 0), nil
	}
	if r.Approval == driver.ApprovalUser {
		in.Approval = driver.ApprovalUser
	}
	desc, _, _ := t.setup.Drivers.Describe(r.Via)
	cost, why := t.afford(&in, desc)
	defer cost.release()
	switch {
	case t.Run.Step.Call != nil:
		cost = &expense{t: t} // the call was paid for when it was made first
	case why != "":
		return plan.Close(t.State, in.ID, r, decision.Exhausted, why, q.Seq), nil
	}
	link := leftLink(t, in)
	if link == nil && input.Of(in.Kind).Approves {
		link = linkFor(t, in)
	}
	c, recovering, err := ready(ctx, t, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return nil, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if a.Question = &q; a.Diagnostics == nil {
		a.Diagnostics = t.Run.Step.Refused[in.ID]
	}
	made, err := t.drivers().Render(ctx, t.State, a, plan.Rendering{Made: plan.Made{Call: c, Recovering: recovering}, Input: in, Link: link})
	t.heard(made.Result.NotDone)
	if err != nil {
		return nil, err
	}
	action, res := plan.Rendered(t.State, a, made), made.Result
	unsent := res.ClientRequest != nil && made.Err == nil && !plan.Sends(action)
	if !unsent && (res.Unavailable == nil || res.Unavailable.Asked) {
		cost.spend()
	}
	return action, nil
}

// ask saves the question before it is sent.
func ask(ctx context.Context, t *turn, a plan.Ask) (Round, error) {
	q := a.Question
	t.record(json.RawMessage(fmt.Sprintf(`{"asks":%d}`, q.Seq)))
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
	if limit := a.Route.Timeout; limit > 0 {
		wait = min(wait, limit)
	}
	params, err := t.e.secrets.Reveal(t.Run.ID, q.Link, string(q.Ask.Params))
	if err != nil {
		return Round{}, err
	}
	return Round{Ask: &Ask{
		Run: t.Run.ID, Seq: q.Seq, Method: q.Ask.Method, Params: json.RawMessage(params), Needs: q.Needs, Wait: wait, Human: q.Human,
		Linked: q.Link != nil && !q.Link.ReadOnly,
	}}, nil
}

// answer takes the client's reply as its driver reads it.
func answer(ctx context.Context, t *turn, q run.Question, in Continuation) (plan.Action, error) {
	k, err := askedTask(ctx, t, q)
	if err != nil {
		return nil, err
	}
	said := t.drivers().Interpret(ctx, t.State, k, q, in.Result, in.Error)
	t.tick()
	t.Measured = plan.Measured{Seq: q.Seq, Delay: cmp.Or(in.Delay, plan.ByRecord(t.State, q))}
	if input.Of(q.Input.Kind).Approves && t.Measured.Delay.Under() {
		if err := loadDecline(ctx, t); err != nil {
			return nil, err
		}
	}
	if said.Err == nil && said.Result.Answer != nil && input.Of(q.Input.Kind).Check != nil {
		if k, err = t.open(ctx); err != nil {
			return nil, err
		}
	}
	return plan.Replied(t.State, k, q, said), nil
}

// askedTask is the task the question is about. When nobody can judge the step
// any more, because its driver was removed meanwhile, it is only where the step
// stands: that is enough to read an answer, which must not be lost.
func askedTask(ctx context.Context, t *turn, q run.Question) (*input.Task, error) {
	if input.Of(q.Input.Kind).OfRun {
		return input.RunTask(*t.Chain), nil
	}
	k, err := t.open(ctx)
	if fault.CodeOf(err) == fault.DriverUnavailable {
		return plan.Place(t.State), nil
	}
	return k, err
}

// expense is one request to a model, reserved before it is made. Its methods
// do nothing on the expense of a driver that asks no model.
type expense struct {
	t      *turn
	cost   run.Spent
	minute int64 // of the reservation
	spent  bool
}

// afford reserves what asking a model for the input costs, and says why the
// budgets do not allow it. in is changed to what the model is granted.
func (t *turn) afford(in *driver.Input, desc driver.Descriptor) (x *expense, why string) {
	x = &expense{t: t}
	if !desc.Has(driver.FeatureModel) || input.Of(in.Kind).Approves {
		return x, ""
	}
	// A driver's input may say anything; a cost below nothing would refund.
	if in.MaxTokens = min(in.MaxTokens, protocol.MaxTokens); in.MaxTokens < 1 {
		in.MaxTokens = driver.DefaultMaxTokens
	}
	cost := run.Spent{Requests: 1, Tokens: in.MaxTokens}
	budgets := t.e.opt.Budgets
	if over := budgets.PerRun.Exceeded(t.Run.Spent.Plus(t.spent), cost); over != "" {
		return x, fmt.Sprintf("this run's budget for language models, %s", over)
	}
	x.minute = t.e.opt.Clock.Now().Unix() / 60
	if over := t.e.hourly.Reserve(t.Run.Principal, x.minute, cost, budgets.PerPrincipalHour); over != "" {
		return x, fmt.Sprintf("this caller's budget for language models in an hour, %s now", over)
	}
	x.cost = cost
	return x, ""
}

// spend: the request is made. The run keeps the cost with its next event.
func (x *expense) spend() {
	if !x.spent {
		x.t.spent = x.t.spent.Plus(x.cost)
	}
	x.spent = true
}

// release gives back what was not spent.
func (x *expense) release() {
	if !x.spent && x.cost != (run.Spent{}) {
		x.t.e.hourly.Release(x.t.Run.Principal, x.minute, x.cost)
	}
}
