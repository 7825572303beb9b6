package director

import (
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// linked is a question that has a link, and the turn of a call on its run.
type linked struct {
	turn  *turn
	shown approval.Linked
}

// linkedBy finds the question by the secret of its link. Without the secret a caller learns
// nothing of the run, not even whether it exists.
func linkedBy(ctx context.Context, u useCase, c access.Caller, id run.ID, secret string) (*linked, error) {
	number, use, known, err := u.e.secrets.Link(id, secret)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, noApproval()
	}
	r, err := u.e.parts.Runs.Read(ctx, id)
	if fault.CodeOf(err) == fault.NotFound {
		return nil, noApproval()
	}
	if err != nil {
		return nil, err
	}
	l := &linked{shown: approval.Linked{ReadOnly: use == secrets.ToRead}}
	if q := r.Step.Question; opens(q, number) {
		l.shown.Question, l.shown.Step, l.shown.Open = *q, r.Step.Index, r.State.Live()
	} else if err := lookBack(ctx, u, l, id, number); err != nil {
		return nil, err
	}
	if !mayApprove(u.e.opt.Approvers, c, r) {
		return nil, fault.New(fault.Forbidden, "Only the owner of this run, or one of the approvers that the server names, may see and answer this.")
	}
	if l.shown.Question.Link.ReadOnly && !l.shown.ReadOnly {
		return nil, noApproval() // this one was not given out
	}
	chain, err := u.e.parts.Runs.Pinned(ctx, r)
	if err != nil {
		return nil, err
	}
	if c.Principal == r.Principal && !c.Reads(chain.Space) {
		return nil, noApproval() // left the group meanwhile, as in usable
	}
	if r.State.Live() && u.e.parts.Runs.Expired(r.Summary()) {
		if r, err = u.e.parts.Runs.Expire(ctx, r, chain); err != nil {
			return nil, err
		}
		l.shown.Open = false
	}
	l.turn = newTurn(u.e.parts.Runs.Change(r, chain), u, c)
	l.turn.Trying = l.shown.Question.Via
	if _, err := l.turn.act(ctx, plan.Distrust(l.turn.State)); err != nil {
		return nil, err
	}
	if q := l.turn.Run.Step.Question; l.shown.Open && q != nil {
		l.shown.Question = *q
	}
	beginRoute(l.turn, l.shown.Question.Input.ID, l.shown.Question.AskedAt)
	l.shown.Open = l.shown.Open && plan.Barred(l.turn.State, l.shown.Question.Input, l.shown.Question.Via) == ""
	return l, nil
}

// lookBack finds a question that is over, and what was decided about it.
func lookBack(ctx context.Context, u useCase, l *linked, id run.ID, number int64) error {
	events, err := u.e.parts.History.Events(ctx, id)
	if err != nil {
		return fmt.Errorf("read what happened in run %s: %w", id, err)
	}
	numbers := make(map[int64]bool) // of the question, which may have been asked again
	for i, ev := range events {
		switch {
		case opens(ev.Question, number):
			l.shown.Question, l.shown.Step = *ev.Question, ev.Step
			numbers[ev.Question.Seq] = true
		case (ev.Kind == run.Answered || ev.Kind == run.Declined) && numbers[ev.Seq]:
			l.shown.Decided = &events[i]
		case ev.Kind == run.Undeclined && l.shown.Decided != nil && l.shown.TakenBack == nil && ev.Step == l.shown.Decided.Step:
			l.shown.TakenBack = &events[i]
		}
	}
	if len(numbers) == 0 {
		return noApproval()
	}
	return nil
}

// opens reports whether the link with that number is the question's.
func opens(q *run.Question, number int64) bool {
	return q != nil && q.Link != nil && q.Link.Number == number
}

func noApproval() *fault.Error {
	return fault.New(fault.NotFound, "There is no such approval. If the agent still needs one, it gets a new link when it continues.")
}

// mayApprove: the run's own principal, and whoever the configuration names.
func mayApprove(approvers []string, c access.Caller, r run.Run) bool {
	return c.Principal == r.Principal || slices.Contains(approvers, c.Principal)
}
