package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/solution"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Continue takes the client's reply to an Ask. The same reply to the same
// question again gets the recorded outcome; another one is fault.Replayed.
func (e *Engine) Continue(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	return use(e, func(u useCase) (Round, error) { return u.resumeWith(ctx, c, in) })
}

func (u useCase) resumeWith(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	t, err := u.resume(ctx, c, in.Run)
	if err != nil {
		return Round{}, err
	}
	payload, err := payloadOf(in)
	if err != nil {
		return Round{}, fault.Wrap(err, fault.InvalidArgument, "the client's reply is not JSON")
	}
	key := fmt.Sprintf("seq:%d", in.Seq)
	q := t.Run.Step.Question
	if q == nil || q.Seq != in.Seq {
		round, err := lateAnswer(ctx, t, in, key, payload)
		return t.orDrive(ctx, round, err)
	}
	t.resumeCall(*q)
	t.Tried = "to take the client's answer to " + q.Ask.Method
	t.pending = []runs.Recorded{{Key: key, Payload: payload}}
	action, err := answer(ctx, t, *q, in)
	var round Round
	if err == nil {
		round, err = t.act(ctx, action)
	}
	if f := (*fault.Error)(nil); asFault(err, &f) {
		if open := t.Run.Step.Question; open != nil && open.Seq == in.Seq {
			t.pending = nil // nothing was decided, so there is nothing to repeat
		}
		return t.halt(ctx, f)
	}
	return t.orDrive(ctx, round, err)
}

// resumeCall makes the turn the call that asked the question, with its step and
// input as what it is about.
func (t *turn) resumeCall(q run.Question) {
	t.rejoin(q)
	t.Run.MovedAt = t.change.Now()
	t.Target, t.Asked = t.Run.Step.Index, plan.Subject{Step: t.Run.Step.Index, Input: q.Input.ID}
	t.Trying = q.Via
	beginRoute(t, q.Input.ID, q.AskedAt)
	if input.Of(q.Input.Kind).Between {
		t.Target = 0
	}
}

// rejoin makes the turn a part of the call that asked the question.
func (t *turn) rejoin(q run.Question) {
	t.Started = cmp.Or(q.Since, t.Started)
	t.Solved, t.Note = plan.LastSolved(t.State, q.Unheard), plain.Sentences(t.Note, q.Note)
}

func payloadOf(in Continuation) (string, error) {
	b, err := json.Marshal(struct {
		Result json.RawMessage     `json:"result,omitempty"`
		Error  *driver.ClientError `json:"error,omitempty"`
	}{in.Result, in.Error})
	if err != nil {
		return "", err
	}
	return solution.Sum(b), nil
}

// Waiting is the reply when the time a call may wait has passed. A person's
// question stays open; any other is given up and the next route is shown.
func (e *Engine) Waiting(ctx context.Context, c access.Caller, id run.ID, seq int64) (api.StepReply, error) {
	round, err := use(e, func(u useCase) (Round, error) {
		t, err := u.resume(ctx, c, id)
		if err != nil {
			return Round{}, err
		}
		t.Caller.Detached, t.Tried = true, "to wait for the client's answer"
		q := t.Run.Step.Question
		if q == nil || q.Seq != seq {
			noteApproval(t)
			return t.show(ctx)
		}
		t.rejoin(*q)
		if u.setup.Tree.On(plan.RouteOf(t.State, *q), decision.TimedOut).Kind == decision.Again {
			k, err := askedTask(ctx, t, *q)
			if err != nil {
				return Round{}, err
			}
			return t.drive(ctx, plan.Wait{Task: k, Question: q})
		}
		_, err = t.act(ctx, plan.Close(t.State, q.Input.ID, plan.RouteOf(t.State, *q), decision.TimedOut, "no reply in time", seq))
		if f := (*fault.Error)(nil); asFault(err, &f) {
			return t.halt(ctx, f)
		}
		if err != nil {
			return Round{}, err
		}
		return t.show(ctx)
	})
	if err != nil || round.Reply == nil {
		return api.StepReply{}, err
	}
	return *round.Reply, nil
}
