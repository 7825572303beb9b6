package director

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// ApprovalState is where an approval stands whose link was opened.
type ApprovalState string

// The states.
const (
	ApprovalOpen     ApprovalState = "open"
	ApprovalApproved ApprovalState = "approved"
	ApprovalRejected ApprovalState = "rejected"
	// ApprovalExpired: the link is too old; the next call makes another.
	ApprovalExpired ApprovalState = "expired"
	// ApprovalReplaced: it was settled in another way, or something else is asked.
	ApprovalReplaced ApprovalState = "replaced"
)

// ApprovalView is what a person sees of an approval; what is asked, only while
// it is open.
type ApprovalView struct {
	State ApprovalState
	// ReadOnly: the link shows what is asked in a form of the client, and takes no answer.
	ReadOnly bool
	// Late: the answer that was given just now came too late and changed nothing.
	Late     bool
	Run      run.ID
	Protocol string
	Step     int // 1-based
	Count    int
	Label    string
	Text     string // of the step
	// Type and Display are what will be done, exactly.
	Type    string
	Display json.RawMessage
	// Plan is what KAIROS will do itself, instead of Display; nil: somebody else does it.
	Plan *run.Plan
	// Done says what was done for the step already, and Declined that a person declined
	// the same before; empty if not. DeclineStands: the decline was not taken back.
	Done, Declined string
	DeclineStands  bool
	// System and Prompt are what will be asked for; values of earlier steps may
	// stand in them.
	System, Prompt string
	Values         []ApprovalValue
	// Digest binds an answer to what is shown.
	Digest string
	// Phrase has to be typed to approve; empty: none.
	Phrase             string
	AskedAt, ExpiresAt time.Time
	// Opened is when the page was opened before.
	Opened []run.Visit
	// DecidedAt, By and Reason are set once it is approved or rejected; By is
	// empty where nobody was identified.
	DecidedAt time.Time
	// Running is the driver that does what was approved, if it can be cancelled; empty:
	// none does. Ending: somebody cancelled it.
	Running string
	Ending  bool
	By      string
	Reason  string
	// TakenBack is when a rejection was taken back, and TakenBackBy who did so; zero: it was not.
	TakenBack   time.Time
	TakenBackBy string
	// Over: the run has ended.
	Over bool
}

// ApprovalValue is a value that stands in what is approved. It was not written
// by the protocol's author.
type ApprovalValue struct {
	Template string // as written in the protocol
	Value    string
}

// ApprovalAnswer is what a person answers on the approval page.
type ApprovalAnswer struct {
	Decision string // "approved" or "rejected", or DecisionCancel
	Digest   string // of the page that was answered
	Phrase   string // as typed
	// By is the principal if who answers was identified; empty: whoever has the link.
	By string
}

// DecisionCancel ends what runs since the approval.
const DecisionCancel = "cancel"

// Approval shows what the link of an approval is about. It decides nothing.
func (e *Engine) Approval(ctx context.Context, c access.Caller, id run.ID, secret string) (ApprovalView, error) {
	h, release := e.hold()
	defer release()
	l, err := linkedBy(ctx, h, c, id, secret)
	if err != nil {
		return ApprovalView{}, err
	}
	v, err := l.view(ctx)
	if err != nil {
		return ApprovalView{}, err
	}
	if v.State == ApprovalOpen && !v.ReadOnly && len(v.Opened) < run.MaxVisits {
		if err := noteOpened(ctx, h, c, id, secret); err != nil {
			// A failure to record it must not keep the person from reading.
			h.log.WarnContext(ctx, "the opening of an approval page was not recorded", "run", id, "error", err)
		}
	}
	return v, nil
}

// maxRecording bounds how long reading an approval waits to be recorded.
const maxRecording = 2 * time.Second

// noteOpened records that the page was opened, so that the approval can say so.
func noteOpened(ctx context.Context, e useCase, c access.Caller, id run.ID, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, maxRecording)
	defer cancel()
	_, err := runs.Again(func() (struct{}, error) {
		if err := e.claim.Take(ctx, id); err != nil {
			return struct{}{}, err
		}
		l, err := linkedBy(ctx, e, c, id, secret)
		if err != nil || l.state() != ApprovalOpen || len(l.question.Link.Opened) >= run.MaxVisits {
			return struct{}{}, err
		}
		visit := visit(l.turn)
		ev := run.Event{Kind: run.Opened, Seq: l.question.Seq, Input: l.question.Input.ID, Via: l.question.Via, Visit: &visit}
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
func (e *Engine) AnswerApproval(ctx context.Context, c access.Caller, id run.ID, secret string, in ApprovalAnswer) (ApprovalView, error) {
	h, release := e.hold()
	defer release()
	return runs.Again(func() (ApprovalView, error) { return h.answerApproval(ctx, c, id, secret, in) })
}

func (e useCase) answerApproval(ctx context.Context, c access.Caller, id run.ID, secret string, in ApprovalAnswer) (ApprovalView, error) {
	// The link is checked before waiting for the run: the delay must not show whether the run exists.
	if _, err := linkedBy(ctx, e, c, id, secret); err != nil {
		return ApprovalView{}, err
	}
	if err := e.claim.Take(ctx, id); err != nil {
		return ApprovalView{}, err
	}
	l, err := linkedBy(ctx, e, c, id, secret)
	if err != nil {
		return ApprovalView{}, err
	}
	v, err := l.view(ctx)
	if err != nil {
		return ApprovalView{}, err
	}
	switch {
	case l.readOnly:
		return v, fault.New(fault.InvalidArgument, "This page only shows what is asked. Answer in the form of the client that asked you.")
	case in.Decision == DecisionCancel && v.Running != "":
		return l.cancel(ctx)
	case v.State != ApprovalOpen:
		v.Late = string(v.State) != in.Decision
		return v, nil
	case subtle.ConstantTimeCompare([]byte(in.Digest), []byte(l.question.Digest)) != 1:
		return v, fault.New(fault.InvalidArgument, "What is asked has changed since the page was opened. Read it again, then answer.")
	case in.Decision == input.SaidApproved && input.WrongPhrase(l.question.Phrase, in.Phrase) != "":
		return v, fault.New(fault.InvalidArgument, "%s", input.WrongPhrase(l.question.Phrase, in.Phrase))
	}
	switch in.Decision {
	case input.SaidApproved:
		err = l.approve(ctx, in.By)
	case input.SaidRejected:
		err = l.decide(ctx, plan.RejectedByLink(l.turn.State, l.question))
	default:
		return v, fault.New(fault.InvalidArgument, "The decision must be %s or %s.", input.SaidApproved, input.SaidRejected)
	}
	if err != nil {
		return v, err
	}
	if err := l.turn.save(ctx); err != nil {
		return v, err
	}
	e.answers.tell(id)
	e.log.InfoContext(ctx, "approval answered on its page", "run", id, "step", l.step, "decision", in.Decision, "by", in.By)
	return l.view(ctx)
}

// view is what the page shows: what the form of a client shows, and the step besides.
func (l *linked) view(ctx context.Context) (ApprovalView, error) {
	t, q := l.turn, l.question
	step := t.Chain.Steps[l.step-1]
	v := ApprovalView{
		State: l.state(), ReadOnly: l.readOnly, Over: !t.Run.State.Live(), Run: t.Run.ID, Protocol: t.Chain.Title, Step: l.step, Count: len(t.Chain.Steps), Label: step.Label,
		Digest: q.Digest, AskedAt: q.AskedAt, ExpiresAt: q.Link.ExpiresAt,
	}
	if v.State == ApprovalOpen {
		// An old link, in a history or a log, shows nobody what it was about.
		v.Text, v.Type, v.Display, v.System, v.Prompt = plan.View(t.State).Text(l.step), q.Input.Type, q.Input.Display, q.Input.System, q.Input.User
		v.Values, v.Phrase, v.Opened = valuesIn(t, step), q.Phrase, q.Link.Opened
		v.Done = input.DoneBefore(t.Run.Step.Early, t.Run.Step.Done)
		if err := loadDecline(ctx, t); err != nil {
			return ApprovalView{}, err
		}
		v.Declined, v.DeclineStands = plan.DeclineInWords(t.State), !plan.LinkMayApprove(t.State)
		if v.Plan = t.Run.Step.Plan; v.Plan != nil {
			v.Display, v.System, v.Prompt = nil, "", ""
		}
	}
	if c := t.Run.Step.Call; v.State == ApprovalApproved && t.Run.Step.Index == l.step && plan.Endable(t.State) {
		v.Running, v.Ending = c.Driver, c.Cancelled
	}
	if ev := l.decided; ev != nil {
		v.DecidedAt, v.Reason = ev.At, ev.Reason
		if ev.Approval != nil {
			v.By = ev.Approval.By
		}
	}
	if ev := l.takenBack; ev != nil {
		v.TakenBack, v.TakenBackBy = ev.At, ev.By
	}
	return v, nil
}

// cancel ends what a driver does since the approval. It undoes nothing, so the link is
// enough for it.
func (l *linked) cancel(ctx context.Context) (ApprovalView, error) {
	if err := cancelCall(ctx, l.turn, "the approval page"); err != nil {
		return ApprovalView{}, err
	}
	if err := endCancelled(ctx, l.turn); err != nil {
		return ApprovalView{}, err
	}
	return l.view(ctx)
}

func (l *linked) state() ApprovalState {
	switch {
	case l.decided != nil && l.decided.Kind == run.Answered:
		return ApprovalApproved
	case l.decided != nil:
		return ApprovalRejected
	case !l.open:
		return ApprovalReplaced
	case !l.turn.e.opt.Clock.Now().Before(l.question.Link.ExpiresAt):
		return ApprovalExpired
	}
	return ApprovalOpen
}

func (l *linked) approve(ctx context.Context, by string) error {
	t, q := l.turn, l.question
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
			l.decided = &l.turn.change.Events[i]
		}
	}
	return err
}
