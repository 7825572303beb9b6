package director

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// render has the capability driver put the question, or answer it.
func render(ctx context.Context, t *turn, a plan.Render) (plan.Action, error) {
	q, r, in := *a.Question, a.Route, a.Question.Input
	drv, ok := t.setup.Drivers.Capability(r.Via, r.CallTimeout)
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
	link := linkFor(t, in)
	address, where, err := addresses(t, a.Task, link)
	if err != nil {
		return nil, err
	}
	in.Description = strings.ReplaceAll(in.Description, input.ReadMark, where)
	c, recovering, err := ready(ctx, t, run.Call{Input: in.ID, Driver: r.Via, Route: r.Index, Path: r.Path})
	if err != nil {
		return nil, err
	}
	q.Key, q.Attempt = c.Key, c.Attempt
	if a.Question = &q; a.Diagnostics == nil {
		a.Diagnostics = t.Run.Step.Refused[in.ID]
	}
	res, failure := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: a.Task.Where, Client: t.Caller.Client, Links: driver.Links{Approval: address}, Diagnostics: a.Diagnostics,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled, Plan: plan.Stated(t.State, r.Via),
	})
	t.heard(res.NotDone)
	if failure == nil {
		failure, err = concealed(t, link, &res)
	}
	if err != nil {
		return nil, err
	}
	action := plan.Rendered(t.State, a, plan.Rendering{Call: c, Recovering: recovering, Result: res, Err: failure, Link: link})
	unsent := res.ClientRequest != nil && failure == nil && !plan.Sends(action)
	if !unsent && (res.Unavailable == nil || res.Unavailable.Asked) {
		cost.spend()
	}
	return action, nil
}

// addresses are where a person answers with the link, empty if nobody may, and where they
// read the whole of what is asked.
func addresses(t *turn, k *input.Task, link *run.ApprovalLink) (answer, read string, err error) {
	if plan.Answerable(t.State, k) {
		if answer, err = t.e.secrets.Reveal(t.Run.ID, link, plan.MarkedURL(t.State, link)); err != nil {
			return "", "", err
		}
	}
	read, err = t.e.secrets.Reveal(t.Run.ID, link, plan.WhereToRead(t.State, link))
	return answer, read, err
}

// concealed makes what a driver wrote fit to be shown and recorded. The failure is its own.
func concealed(t *turn, link *run.ApprovalLink, res *driver.RenderResult) (failure, err error) {
	if e := res.Elsewhere; e != nil {
		said := *e
		res.Elsewhere = &said
		said.Message, err = t.e.secrets.Conceal(t.Run.ID, link, e.Message)
	}
	if req := res.ClientRequest; req != nil && err == nil {
		shown, failure := readable(*req)
		if failure != nil {
			return fmt.Errorf("its request is not sound JSON: %w", failure), nil
		}
		params, err := t.e.secrets.Conceal(t.Run.ID, link, string(shown.Params))
		shown.Params = json.RawMessage(params)
		res.ClientRequest = &shown
		return nil, err
	}
	return nil, err
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
