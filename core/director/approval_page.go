package director

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Approval shows what the link of an approval is about. It decides nothing.
func (e *Engine) Approval(ctx context.Context, c access.Caller, id run.ID, secret string) (approval.View, error) {
	u, release := e.hold()
	defer release()
	l, err := linkedBy(ctx, u, c, id, secret)
	if err != nil {
		return approval.View{}, err
	}
	v, err := l.view(ctx)
	if err != nil {
		return approval.View{}, err
	}
	if v.State == approval.Open && !v.ReadOnly && len(v.Opened) < run.MaxVisits {
		if err := noteOpened(ctx, u, c, id, secret); err != nil {
			// A failure to record it must not keep the person from reading.
			e.log.WarnContext(ctx, "the opening of an approval page was not recorded", "run", id, "error", err)
		}
	}
	return v, nil
}

// maxRecording bounds how long reading an approval waits to be recorded.
const maxRecording = 2 * time.Second

// noteOpened records that the page was opened, so that the approval can say so.
func noteOpened(ctx context.Context, u useCase, c access.Caller, id run.ID, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, maxRecording)
	defer cancel()
	_, err := runs.Again(func() (struct{}, error) {
		if err := u.claim.Take(ctx, id); err != nil {
			return struct{}{}, err
		}
		l, err := linkedBy(ctx, u, c, id, secret)
		if err != nil || l.shown.State(l.turn.Now) != approval.Open || len(l.shown.Question.Link.Opened) >= run.MaxVisits {
			return struct{}{}, err
		}
		visit := visit(l.turn)
		ev := run.Event{Kind: run.Opened, Seq: l.shown.Question.Seq, Input: l.shown.Question.Input.ID, Via: l.shown.Question.Via, Visit: &visit}
		if err := l.turn.apply(ev); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, l.turn.save(ctx)
	})
	return err
}

// AnswerApproval takes a person's answer to what the link is about, once: later
// answers change nothing and are shown what was decided. A wrong digest or
// phrase is fault.InvalidArgument, and the approval stays open.
func (e *Engine) AnswerApproval(ctx context.Context, c access.Caller, id run.ID, secret string, in approval.Answer) (approval.View, error) {
	return use(e, func(u useCase) (approval.View, error) { return u.answerApproval(ctx, c, id, secret, in) })
}

func (u useCase) answerApproval(ctx context.Context, c access.Caller, id run.ID, secret string, in approval.Answer) (approval.View, error) {
	// The link is checked before waiting for the run: the delay must not show whether the run exists.
	if _, err := linkedBy(ctx, u, c, id, secret); err != nil {
		return approval.View{}, err
	}
	if err := u.claim.Take(ctx, id); err != nil {
		return approval.View{}, err
	}
	l, err := linkedBy(ctx, u, c, id, secret)
	if err != nil {
		return approval.View{}, err
	}
	v, err := l.view(ctx)
	if err != nil {
		return approval.View{}, err
	}
	switch {
	case l.shown.ReadOnly:
		return v, fault.New(fault.InvalidArgument, "This page only shows what is asked. Answer in the form of the client that asked you.")
	case in.Decision == approval.Cancel && v.Running != "":
		return l.cancel(ctx)
	case v.State != approval.Open:
		v.Late = string(v.State) != in.Decision
		return v, nil
	case subtle.ConstantTimeCompare([]byte(in.Digest), []byte(l.shown.Question.Digest)) != 1:
		return v, fault.New(fault.InvalidArgument, "What is asked has changed since the page was opened. Read it again, then answer.")
	case in.Decision == input.SaidApproved && input.WrongPhrase(l.shown.Question.Phrase, in.Phrase) != "":
		return v, fault.New(fault.InvalidArgument, "%s", input.WrongPhrase(l.shown.Question.Phrase, in.Phrase))
	}
	switch in.Decision {
	case input.SaidApproved:
		err = l.approve(ctx, in.By)
	case input.SaidRejected:
		err = l.decide(ctx, plan.RejectedByLink(l.turn.State, l.shown.Question))
	default:
		return v, fault.New(fault.InvalidArgument, "The decision must be %s or %s.", input.SaidApproved, input.SaidRejected)
	}
	if err != nil {
		return v, err
	}
	if err := l.turn.save(ctx); err != nil {
		return v, err
	}
	u.e.answers.tell(id)
	u.e.log.InfoContext(ctx, "approval answered on its page", "run", id, "step", l.shown.Step, "decision", in.Decision, "by", in.By)
	return l.view(ctx)
}

// view is what the page shows.
func (l *linked) view(ctx context.Context) (approval.View, error) {
	l.turn.tick()
	if l.shown.State(l.turn.Now) == approval.Open {
		if err := loadDecline(ctx, l.turn); err != nil {
			return approval.View{}, err
		}
	}
	return approval.Of(l.turn.State, l.shown), nil
}

// cancel ends what a driver does since the approval. It undoes nothing, so the link is
// enough for it.
func (l *linked) cancel(ctx context.Context) (approval.View, error) {
	if err := cancelCall(ctx, l.turn, "the approval page"); err != nil {
		return approval.View{}, err
	}
	if err := endCancelled(ctx, l.turn); err != nil {
		return approval.View{}, err
	}
	return l.view(ctx)
}

func (l *linked) approve(ctx context.Context, by string) error {
	t, q := l.turn, l.shown.Question
	if err := loadDecline(ctx, t); err != nil {
		return err
	}
	if by == "" && !plan.LinkMayApprove(t.State) {
		return fault.New(fault.InvalidArgument, "%s", plain.Sentences(plan.DeclineInWords(t.State), "The holder of this link is not identified, so the link cannot take a decline back", plan.HowToTakeBack(t.State)))
	}
	return l.decide(ctx, plan.ApprovedByLink(t.State, q, by, visit(t)))
}

// decide acts on the person's answer.
func (l *linked) decide(ctx context.Context, a plan.Action) error {
	_, err := l.turn.act(ctx, a)
	for i, ev := range l.turn.change.Events {
		if ev.Kind == run.Answered || ev.Kind == run.Declined {
			l.shown.Decided = &l.turn.change.Events[i]
		}
	}
	return err
}
