package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// read lets the capability driver that asked, or what has its name now, read
// the client's reply.
func read(ctx context.Context, t *turn, k *input.Task, q run.Question, in Continuation) (driver.InterpretResult, error) {
	drv, ok := t.setup.Drivers.Capability(q.Via, plan.RouteOf(t.State, q).CallTimeout)
	if !ok {
		return driver.CannotInterpret("the driver is not configured any more"), nil
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: q.Input, Step: k.Where, Client: q.Client, Raw: in.Result, ClientError: in.Error, IdempotencyKey: q.Key, Attempt: q.Attempt,
	})
	t.tick()
	if res.Answer != nil && input.Of(q.Input.Kind).Approves && plan.SentToAddress(q.Ask) {
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
	res, failure := read(ctx, t, k, q, in)
	if failure == nil && res.Answer != nil && input.Of(q.Input.Kind).Check != nil {
		if k, err = t.open(ctx); err != nil {
			return nil, err
		}
	}
	return plan.Replied(t.State, k, q, plan.Reading{Result: res, Err: failure, ClientError: in.Error}), nil
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
