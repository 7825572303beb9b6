// Package approval is what a person sees of an approval whose link was opened. It is pure:
// what a link is about is looked up, and an answer taken, by core/director.
package approval

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// State is where an approval stands whose link was opened.
type State string

// The states.
const (
	Open     State = "open"
	Approved State = "approved"
	// Answered: a question that is not an approval was.
	Answered State = "answered"
	Rejected State = "rejected"
	// Expired: the link is too old; the next call makes another.
	Expired State = "expired"
	// Replaced: it was settled in another way, or something else is asked.
	Replaced State = "replaced"
)

// View is what a person sees of an approval; what is asked, only while
// it is open.
type View struct {
	State State
	// ReadOnly: the link shows what is asked in a form of the client, and takes no answer.
	ReadOnly bool
	// Late: the answer that was given just now came too late and changed nothing.
	Late     bool
	Run      run.ID
	Protocol string
	// Space is that of the protocol, Owner the principal whose run it is, and Agent the name
	// that the program which asked gives itself; empty: it gave none.
	Space, Owner, Agent string

	Step  int // 1-based
	Count int
	Label string
	Text  string // of the step
	// Asks: it is not an approval. Question is what is asked then, and Fields are how it is answered.
	Asks     bool
	Question string
	Fields   []input.Field
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
	Values         []Value
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
	// EndedAt is when what was approved was cancelled, once the driver has ended it; zero: it was not.
	EndedAt time.Time
	By      string
	Reason  string
	// Votes are the approvals of people, where they have to log in, and Missing says whose the step
	// lacks. Barred says why the caller may not answer; empty: they may.
	Votes           []run.Vote
	Missing, Barred string
	// Given says why another approval of the caller adds nothing; empty: it is needed.
	Given string
	// TakenBack is when a rejection was taken back, and TakenBackBy who did so; zero: it was not.
	TakenBack   time.Time
	TakenBackBy string
	// Over: the run has ended.
	Over bool
}

// Value is a value that stands in what is approved. It was not written
// by the protocol's author.
type Value struct {
	Template string // as written in the protocol
	Value    string
}

// Answer is what a person answers on the approval page.
type Answer struct {
	Decision string // "approved" or "answered", "rejected", or Cancel
	Digest   string // of the page that was answered
	Phrase   string // as typed
	// Fields are what was filled in, by field, if it is not an approval.
	Fields map[string][]string
	// By is the principal if who answers was identified; empty: whoever has the link.
	By string
}

// Cancel ends what runs since the approval.
const Cancel = "cancel"

// Linked is a question that has a link, and what became of it.
type Linked struct {
	Question run.Question
	Step     int
	Open     bool       // the question is, and may be answered through its driver
	Decided  *run.Event // nil: not through the link
	// TakenBack is when Decided was taken back; nil: it was not.
	TakenBack *run.Event
	// Cancelled is when what was approved was cancelled; nil: it was not.
	Cancelled *run.Event
	ReadOnly  bool // the link shows what is asked and takes no answer
	// Task is what the step demands; nil: it is not open any more.
	Task *input.Task
}

// Yes is the decision with which the agent may continue.
func (l Linked) Yes() string {
	if input.Of(l.Question.Input.Kind).Approves {
		return input.SaidApproved
	}
	return input.SaidAnswered
}

// State is where the approval stands.
func (l Linked) State(now time.Time) State {
	switch {
	case l.Decided != nil && l.Decided.Kind == run.Answered && l.Yes() == input.SaidAnswered:
		return Answered
	case l.Decided != nil && l.Decided.Kind == run.Answered:
		return Approved
	case l.Decided != nil:
		return Rejected
	case !l.Open:
		return Replaced
	case !now.Before(l.Question.Link.ExpiresAt):
		return Expired
	}
	return Open
}

// Of is what the page shows: what the form of a client shows, and the step besides. While
// the approval is open, what a person declined before was looked up.
func Of(s *plan.State, l Linked) View {
	q, step := l.Question, s.Chain.Steps[l.Step-1]
	v := View{
		State: l.State(s.Now), ReadOnly: l.ReadOnly, Over: !s.Run.State.Live(), Run: s.Run.ID, Protocol: s.Chain.Title, Space: s.Chain.Space, Owner: s.Run.Principal, Agent: q.Client.Name, Step: l.Step, Count: len(s.Chain.Steps), Label: step.Heading(),
		Digest: q.Digest, AskedAt: q.AskedAt, ExpiresAt: q.Link.ExpiresAt, Asks: l.Yes() == input.SaidAnswered,
	}
	if k := l.Task; k != nil {
		v.Barred = plan.NotByCaller(s, k, q)
		if v.State == Open {
			v.Votes, v.Missing, v.Given = plan.Votes(s, k), plan.WhoIsMissing(s, k), plan.NotNeededOf(s, k, q)
		}
	}
	if v.State == Open {
		// An old link, in a history or a log, shows nobody what it was about.
		v.Text, v.Type, v.Display, v.System, v.Prompt = plan.View(s).Content(l.Step), q.Input.Type, q.Input.Display, q.Input.System, q.Input.User
		v.Values, v.Phrase, v.Opened = valuesIn(s, step), q.Phrase, q.Link.Opened
		v.Done = input.DoneBefore(s.Run.Step.Early, s.Run.Step.Done)
		v.Declined, v.DeclineStands = plan.DeclineInWords(s), !plan.LinkMayApprove(s)
		if v.Asks {
			v.Question, v.Type, v.Display, v.DeclineStands = q.Input.Description, "", nil, false
			v.Fields, _ = input.FieldsOf(q.Input) // it has some, else it has no page
		}
		if v.Plan = s.Run.Step.Plan; v.Plan != nil {
			v.Display, v.System, v.Prompt = nil, "", ""
		}
	}
	if c := s.Run.Step.Call; v.State == Approved && s.Run.Step.Index == l.Step && plan.Endable(s) {
		v.Running, v.Ending = c.Driver, c.Cancelled
	}
	if ev := l.Cancelled; ev != nil && v.State == Approved && v.Running == "" {
		v.EndedAt = ev.At
	}
	if ev := l.Decided; ev != nil {
		v.DecidedAt, v.Reason = ev.At, ev.Reason
		if ev.Approval != nil {
			v.By, v.Votes = ev.Approval.People(), ev.Approval.Votes
		} else {
			v.By = run.Person(ev.By, ev.Name)
		}
	}
	if ev := l.TakenBack; ev != nil {
		v.TakenBack, v.TakenBackBy = ev.At, ev.By
	}
	return v
}

// Filled is the view with what was filled in, to be corrected.
func (v View) Filled(given map[string][]string) View {
	v.Fields = input.Filled(v.Fields, given)
	return v
}

// valuesIn are the values that were put into the step's challenge.
func valuesIn(s *plan.State, step protocol.Step) []Value {
	var values []Value
	seen := map[string]bool{}
	refs := protocol.References(step.Challenge)
	for i, v := range runs.Scope(*s.Run, *s.Chain).Values(refs) {
		text := refs[i].Text
		if v == nil || seen[text] {
			continue
		}
		seen[text] = true
		values = append(values, Value{Template: text, Value: plain.Clip(api.Readable(v), 4000)})
	}
	return values
}
