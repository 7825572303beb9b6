package director

import (
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/plan"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// linked is a question that has a link, and what became of it.
type linked struct {
	turn     *turn
	question run.Question
	step     int
	open     bool
	decided  *run.Event // nil: not through the link
	// takenBack is when decided was taken back; nil: it was not.
	takenBack *run.Event
	readOnly  bool // the link shows what is asked and takes no answer
}

// linkedBy finds the question by the secret of its link. Without the secret a caller learns
// nothing of the run, not even whether it exists.
func linkedBy(ctx context.Context, e useCase, c access.Caller, id run.ID, secret string) (*linked, error) {
	number, use, known, err := e.secrets.Link(id, secret)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, noApproval()
	}
	r, err := e.runs.Read(ctx, id)
	if fault.CodeOf(err) == fault.NotFound {
		return nil, noApproval()
	}
	if err != nil {
		return nil, err
	}
	l := &linked{readOnly: use == secrets.ToRead}
	if q := r.Step.Question; opens(q, number) {
		l.question, l.step, l.open = *q, r.Step.Index, r.State.Live()
	} else if err := lookBack(ctx, e, l, id, number); err != nil {
		return nil, err
	}
	if !mayApprove(e.opt.Approvers, c, r) {
		return nil, fault.New(fault.Forbidden, "Only the owner of this run, or one of the approvers that the server names, may see and answer this.")
	}
	if l.question.Link.ReadOnly && !l.readOnly {
		return nil, noApproval() // this one was not given out
	}
	chain, err := e.runs.Pinned(ctx, r)
	if err != nil {
		return nil, err
	}
	if c.Principal == r.Principal && !c.Reads(chain.Space) {
		return nil, noApproval() // left the group meanwhile, as in usable
	}
	if r.State.Live() && e.runs.Expired(r.Summary()) {
		if r, err = e.runs.Expire(ctx, r, chain); err != nil {
			return nil, err
		}
		l.open = false
	}
	l.turn = newTurn(e.runs.Change(r, chain), e, c)
	l.turn.Trying = l.question.Via
	if _, err := l.turn.act(ctx, plan.Distrust(l.turn.State)); err != nil {
		return nil, err
	}
	if q := l.turn.Run.Step.Question; l.open && q != nil {
		l.question = *q
	}
	beginRoute(l.turn, l.question.Input.ID, l.question.AskedAt)
	l.open = l.open && plan.Barred(l.turn.State, l.question.Input, l.question.Via) == ""
	return l, nil
}

// lookBack finds a question that is over, and what was decided about it.
func lookBack(ctx context.Context, e useCase, l *linked, id run.ID, number int64) error {
	events, err := e.store.History.Events(ctx, id)
	if err != nil {
		return fmt.Errorf("read what happened in run %s: %w", id, err)
	}
	numbers := make(map[int64]bool) // of the question, which may have been asked again
	for i, ev := range events {
		switch {
		case opens(ev.Question, number):
			l.question, l.step = *ev.Question, ev.Step
			numbers[ev.Question.Seq] = true
		case (ev.Kind == run.Answered || ev.Kind == run.Declined) && numbers[ev.Seq]:
			l.decided = &events[i]
		case ev.Kind == run.Undeclined && l.decided != nil && l.takenBack == nil && ev.Step == l.decided.Step:
			l.takenBack = &events[i]
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
