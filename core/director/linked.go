package director

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
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
	case l.unknown():
		return v, plan.Unavailable("The driver that judges this step is not there now, so that nobody can tell who may approve it. Nothing was decided: try again later.")
	case v.Barred != "" && (v.State == approval.Open || in.Decision == approval.Cancel && !plan.RunsIt(l.turn.State)):
		u.e.log.WarnContext(ctx, "answer on the approval page refused", "run", id, "step", l.shown.Step, "decision", in.Decision, "principal", c.Principal, "method", c.Method)
		act := audit.Act{Action: audit.ApprovalGive, Space: l.turn.Chain.Space, Object: string(id), Details: map[string]string{"step": strconv.Itoa(l.shown.Step)}}
		return approval.View{}, u.e.opt.Audit.Refused(ctx, c, act, fault.New(fault.Forbidden, "%s", v.Barred))
	case in.Decision == approval.Cancel && v.Running != "":
		return l.cancel(ctx)
	case v.State != approval.Open:
		v.Late = !l.same(in)
		return v, nil
	case subtle.ConstantTimeCompare([]byte(in.Digest), []byte(l.shown.Question.Digest)) != 1:
		return v, fault.New(fault.InvalidArgument, "What is asked has changed since the page was opened. Read it again, then answer.")
	case in.Decision == input.SaidApproved && input.WrongPhrase(l.shown.Question.Phrase, in.Phrase) != "":
		return v, fault.New(fault.InvalidArgument, "%s", input.WrongPhrase(l.shown.Question.Phrase, in.Phrase))
	}
	yes := l.shown.Yes()
	switch {
	case in.Decision == input.SaidRejected:
		err = l.decide(ctx, plan.RejectedByLink(l.turn.State, l.shown.Question, in.By))
	case in.Decision != yes:
		return v, fault.New(fault.InvalidArgument, "The decision must be %s or %s.", yes, input.SaidRejected)
	case yes == input.SaidAnswered:
		err = l.fill(ctx, in)
	default:
		err = l.approve(ctx, in.By)
	}
	if err != nil {
		return v, err
	}
	if err := l.turn.save(ctx); err != nil {
		return v, err
	}
	u.e.answers.notify()
	u.e.log.InfoContext(ctx, "approval answered on its page", "run", id, "step", l.shown.Step, "decision", in.Decision, "by", in.By)
	return l.view(ctx)
}

// view is what the page shows.
func (l *linked) view(ctx context.Context) (approval.View, error) {
	l.turn.tick()
	if l.shown.State(l.turn.Now) == approval.Open && input.Of(l.shown.Question.Input.Kind).Approves {
		if err := loadDecline(ctx, l.turn); err != nil {
			return approval.View{}, err
		}
	}
	if err := l.workOut(ctx); err != nil {
		return approval.View{}, err
	}
	return approval.Of(l.turn.State, l.shown), nil
}

// cancel ends what a driver does since the approval. It undoes nothing, so the link is
// enough for it.
func (l *linked) cancel(ctx context.Context) (approval.View, error) {
	if err := cancelCall(ctx, l.turn, "the approval page"); err != nil {
		return approval.View{}, err
	}
	l.shown.Cancelled = &run.Event{Kind: run.Cancelled, At: plan.At(l.turn.State)} // as it is recorded
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
	k := l.shown.Task
	if why := cmp.Or(plan.TooFastOnPage(t.State, k, q), plan.NotNeededOf(t.State, k, q)); why != "" {
		return fault.New(fault.InvalidArgument, "%s", why)
	}
	return l.decide(ctx, plan.ApprovedByLink(t.State, k, q, by, visit(t)))
}

// fill takes what the person filled in.
func (l *linked) fill(ctx context.Context, in approval.Answer) error {
	q := l.shown.Question
	value, wrong := input.ReadFields(q.Input, in.Fields)
	if len(wrong) > 0 {
		return fault.New(fault.InvalidArgument, "%s", input.WrongFields(wrong))
	}
	return l.decide(ctx, plan.AnsweredOnPage(l.turn.State, q, in.By, value, visit(l.turn)))
}

// same reports whether the answer says what was decided already.
func (l *linked) same(in approval.Answer) bool {
	if string(l.shown.State(l.turn.Now)) != in.Decision {
		return false
	}
	ev := l.shown.Decided
	if in.Decision != input.SaidAnswered || ev == nil || ev.Answer == nil {
		return true
	}
	value, wrong := input.ReadFields(l.shown.Question.Input, in.Fields)
	return len(wrong) == 0 && bytes.Equal(value, ev.Answer.Value)
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

// linked is a question that has a link, and the turn of a call on its run.
type linked struct {
	turn  *turn
	shown approval.Linked
}

// linkedBy finds the question by the secret of its link. Without the secret a caller learns
// nothing of the run, not even whether it exists. With it the run's owner may answer, and
// whoever has logged in and reads the run's space.
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
	if c.Principal != r.Principal && c.Method != access.ByLogin {
		return nil, fault.New(fault.Forbidden, "Only the owner of this run may see and answer this.")
	}
	if l.shown.Question.Link.ReadOnly && !l.shown.ReadOnly {
		return nil, noApproval() // this one was not given out
	}
	chain, err := u.e.parts.Runs.Pinned(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.State.Live() && u.e.parts.Runs.Expired(r.Summary()) {
		if r, err = u.e.parts.Runs.Expire(ctx, r, chain); err != nil {
			return nil, err
		}
		l.shown.Open = false
	}
	l.turn = newTurn(u.e.parts.Runs.Change(r, chain), u, c)
	l.turn.Trying, l.turn.Asker = l.shown.Question.Via, cmp.Or(l.shown.Question.Asker, &run.Asker{})
	if err := l.maySee(ctx); err != nil {
		return nil, err
	}
	if _, err := l.turn.act(ctx, plan.Distrust(l.turn.State)); err != nil {
		return nil, err
	}
	if q := l.turn.Run.Step.Question; l.shown.Open && q != nil {
		l.shown.Question = *q
	}
	beginRoute(l.turn, l.shown.Question.Input.ID, l.shown.Question.AskedAt)
	l.shown.Open = l.shown.Open && plan.Barred(l.turn.State, l.shown.Question.Input, l.shown.Question.Via) == ""
	if !l.shown.ReadOnly && !slices.ContainsFunc(l.turn.How, func(way string) bool { return protocol.AnsweredBy(way) == driver.ByPage }) {
		l.shown.Open = false // the operator has taken the page off the ways that count
	}
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
		case ev.Kind == run.Cancelled && l.shown.Decided != nil && l.shown.Cancelled == nil && ev.Step == l.shown.Decided.Step:
			l.shown.Cancelled = &events[i]
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

// visit is how the caller reached the page, now.
func visit(t *turn) run.Visit {
	v := t.Caller.Visit
	v.At = t.change.Now()
	return v
}

// linkFor is the link of a question that is about to be asked: that of the
// same question, if it is out already, else a new one; nil: there is no page.
func linkFor(t *turn, in driver.Input) *run.ApprovalLink {
	if !pageOpens(t) {
		return nil
	}
	if l := leftLink(t, in); l != nil {
		return l
	}
	mark := make([]byte, 16)
	_, _ = rand.Read(mark) // never fails
	return &run.ApprovalLink{Number: t.Run.Seq + 1, Input: in.ID, Mark: hex.EncodeToString(mark), ExpiresAt: t.e.opt.Clock.Now().Add(t.e.opt.ApprovalTTL)}
}

// leftLink is the link that was given out for the same question; nil: there is none.
func leftLink(t *turn, in driver.Input) *run.ApprovalLink {
	if !pageOpens(t) {
		return nil
	}
	if q := t.Run.Step.Question; plan.CurrentLink(t.State, q) && q.Input.ID == in.ID {
		return q.Link
	}
	return plan.LeftLink(t.State, in)
}

// pageOpens reports whether links lead to a page. It may turn out not to open.
func pageOpens(t *turn) bool {
	return plan.HasPage(t.State) && t.e.opt.ApprovalURL(t.Run.ID, "secret") != ""
}

// revealReply puts the secret of the open question's link into a reply.
func revealReply(t *turn, r *api.StepReply) (err error) {
	q := t.Run.Step.Question
	if q == nil {
		return nil
	}
	if r.ApprovalURL != "" && !plan.HasPage(t.State) {
		r.ApprovalURL = "" // of a reply that a server with a page stored
	}
	for _, text := range []*string{&r.ApprovalURL, &r.Message, &r.NextAction} {
		if *text, err = t.e.secrets.Reveal(t.Run.ID, q.Link, *text); err != nil {
			return err
		}
	}
	return nil
}
