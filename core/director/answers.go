package director

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// read lets the capability driver that asked, or what has its name now, read
// the client's reply.
func read(ctx context.Context, t *turn, k *input.Task, q run.Question, in Continuation) (driver.InterpretResult, error) {
	drv, ok := t.e.Drivers.Capability(q.Via, plan.RouteOf(t.State, q).CallTimeout)
	if !ok {
		return driver.CannotInterpret("the driver is not configured any more"), nil
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: q.Input, Step: k.Where, Client: q.Client, Raw: in.Result, ClientError: in.Error, IdempotencyKey: q.Key, Attempt: q.Attempt,
	})
	t.tick()
	if res.Answer != nil && input.Of(q.Input.Kind).Approves && sentToAddress(q.Ask) {
		// Such a question shows an address and no form: nobody saw what an approval would be for.
		return driver.LeftOut("the client was asked to open the approval page; the answer comes from there"), err
	}
	return res, err
}

// answer takes the client's reply as its driver reads it.
func answer(ctx context.Context, t *turn, q run.Question, in Continuation) (plan.Action, error) {
	k, err := askedTask(ctx, t, q)
	if err != nil {
		return nil, err
	}
	r := plan.RouteOf(t.State, q)
	res, err := read(ctx, t, k, q, in)
	if err == nil && res.Missing != nil && q.Link != nil && !q.Link.ReadOnly {
		return openedPage(t, k, q)
	}
	if in.Error != nil && outcomeOf(in) == decision.Errored && shortPossible(t, q) {
		return askShort(t, k, q, r), nil
	}
	optional := input.Of(q.Input.Kind).Optional
	if err == nil && res.Dismissed != nil && q.Human && !optional {
		return dismissed(t, k, q, res.Dismissed.Reason)
	}
	if optional && res.Answer == nil && in.Error == nil {
		return plan.LeaveOffer(t.State, q, "the person did not answer with yes"), nil
	}
	unread := res.Answer == nil && res.Declined == nil && res.Invalid == nil
	if q.Human && in.Error == nil && (err != nil || unread) {
		// The person has answered, perhaps with a decline. Until they are asked again it
		// counts as one, so that nobody else answers in their place.
		no := run.Event{Kind: run.Declined, Input: q.Input.ID, Via: q.Via, Seq: q.Seq, Reason: "the answer could not be read"}
		if err := t.apply(no); err != nil {
			return nil, err
		}
		return nil, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read what the person answered to step %d; call kairos_next again to have them asked again", q.Via, k.Where.Index)
	}
	switch {
	case err != nil:
		return plan.Close(t.State, q.Input.ID, r, decision.Errored, err.Error(), q.Seq), nil
	case res.Answer != nil:
		if input.Of(q.Input.Kind).Check != nil {
			if k, err = t.open(ctx); err != nil {
				return nil, err
			}
		}
		return plan.Answered(t.State, k, q, r, *res.Answer), nil
	case res.Declined != nil:
		return plan.Decline(q.Input, q.Via, res.Declined.Reason, q.Seq), nil
	case res.Invalid != nil:
		return plan.AskAgainBetter(t.State, k, q, r, res.Invalid.Diagnostics), nil
	case res.Unavailable != nil:
		return plan.Close(t.State, q.Input.ID, r, outcomeOf(in), res.Unavailable.Reason, q.Seq), nil
	case res.Missing != nil:
		return plan.Close(t.State, q.Input.ID, r, decision.Invalid, res.Missing.Reason, q.Seq), nil
	}
	return plan.Close(t.State, q.Input.ID, r, decision.Errored, "driver gave no outcome", q.Seq), nil
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

// dismissed records that the person closed the question without an answer. The
// question stays open, nothing is counted, and no other route is taken: nobody
// else may answer for them.
func dismissed(t *turn, k *input.Task, q run.Question, reason string) (plan.Action, error) {
	closed := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), closed)
	q.Dismissed++
	q.Closed = t.e.opt.Clock.Now()
	if err := put(t, &q, run.Event{Kind: run.Dismissed, Seq: closed, Reason: plain.Clip(reason, 500)}); err != nil {
		return nil, err
	}
	return plan.Wait{Task: k, Question: &q}, nil
}
