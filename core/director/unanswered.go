package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// Unanswered is for a client that came back without an answer to an Ask, as in
// the 2026-07-28 era, where no client says that it refused. The question goes
// out again, under the same number, at most plan.MaxUnanswered times. After that a
// person's question stays open and the reply says that the run waits for them;
// any other question is abandoned and the next route is taken.
func (e *Engine) Unanswered(ctx context.Context, c access.Caller, id run.ID, seq int64) (Round, error) {
	return use(e, func(u useCase) (Round, error) { return u.unanswered(ctx, c, id, seq) })
}

func (u useCase) unanswered(ctx context.Context, c access.Caller, id run.ID, seq int64) (Round, error) {
	t, err := u.resume(ctx, c, id)
	if err != nil {
		return Round{}, err
	}
	if !t.Run.State.Live() {
		return Round{}, t.change.Over(ctx)
	}
	q := t.Run.Step.Question
	if q == nil || q.Seq != seq {
		t.Tried = "to ask the client a question again"
		t.Note = "The question was settled, or replaced by a later one."
		noteApproval(t)
		return t.show(ctx)
	}
	t.resumeCall(*q)
	t.Tried = "to get the client's answer to " + q.Ask.Method
	action, err := askedInVain(ctx, t, *q)
	if f := (*fault.Error)(nil); asFault(err, &f) {
		return t.halt(ctx, f)
	}
	if err != nil {
		return Round{}, err
	}
	return t.drive(ctx, action)
}

// askedInVain counts a round without an answer, and decides what follows.
func askedInVain(ctx context.Context, t *turn, q run.Question) (plan.Action, error) {
	k, err := askedTask(ctx, t, q)
	if err != nil {
		return nil, err
	}
	r := plan.RouteOf(t.State, q)
	switch {
	case plan.GivenUp(t.State, q):
		return plan.Abandon(t.State, q, r), nil
	case q.Unanswered+1 >= plan.MaxUnanswered:
		return plan.Wait{Task: k, Question: &q}, nil
	}
	if err := t.apply(run.Event{Kind: run.Unanswered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via}); err != nil {
		return nil, err
	}
	return plan.Ask{Question: *t.Run.Step.Question, Route: r}, nil
}
