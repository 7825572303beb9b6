package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Measured is how long the client's answer to a question took.
type Measured struct {
	Seq   int64 // of the question; zero: no answer was taken
	Delay *run.Delay
}

// Reflex is what a client answered itself in this call.
type Reflex struct {
	Input string
	Delay run.Delay
	// Dismissed: it closed the question; else it declined, or gave no usable answer.
	Dismissed bool
	// Demanded is how long an approval has to take at least, if a rule refused the answer.
	Demanded time.Duration
}

// ByRecord is how long the answer to the question took by the record, for a client of which
// nothing was measured; nil: the clock was set back meanwhile, so nobody knows.
func ByRecord(s *State, q run.Question) *run.Delay {
	if setBack(s, q.AskedAt) {
		return nil
	}
	return &run.Delay{After: max(0, s.Now.Sub(q.AskedAt))}
}

// Time adds to an event that takes the client's answer how long the answer took.
func Time(s *State, ev *run.Event) {
	if s.Measured.Seq == 0 || ev.Seq != s.Measured.Seq {
		return
	}
	ev.Delay = s.Measured.Delay
	if ev.Approval != nil {
		a := *ev.Approval
		a.Delay = ev.Delay
		ev.Approval = &a
	}
}

// automatic reports whether the client answered a person's question itself: it was faster than a
// person can be, and what it says is not a usable yes.
func automatic(s *State, k *input.Task, q run.Question, in Reading) bool {
	if !q.Human || in.ClientError != nil || !s.Measured.Delay.Under() {
		return false
	}
	if in.Err != nil || in.Result.Answer == nil {
		return in.Result.Unavailable == nil && in.Result.Missing == nil
	}
	if revoked(s, q) {
		return true
	}
	a := *in.Result.Answer
	a.InputID, a.Via = q.Input.ID, q.Via
	to, err := settlement(s, k, q.Input, q.Phrase, true, a)
	return err == nil && (to.Declined || to.Unusable != "" || len(to.Again) > 0)
}

// revoked reports whether an answer to the question would take a person's decline back.
func revoked(s *State, q run.Question) bool {
	_, no := s.Run.Step.Declines[q.Input.ID]
	return no || input.Of(q.Input.Kind).Approves && s.Decline != nil
}

// tooFast is how long an approval has to take at least, if this one took less; zero: it counts.
func tooFast(k *input.Task, q run.Question, d *run.Delay) time.Duration {
	if !input.Of(q.Input.Kind).Approves || inTime(k.Approval.After, d) {
		return 0
	}
	return k.Approval.After
}

// inTime reports whether an answer took as long as is demanded. One of which nobody knows that did not.
func inTime(after time.Duration, d *run.Delay) bool {
	return after == 0 || d != nil && d.After >= after
}

// TooFastOnPage says that an approval on the page does not count yet; empty: it does.
func TooFastOnPage(s *State, k *input.Task, q run.Question) string {
	if inTime(k.Approval.After, ByRecord(s, q)) {
		return ""
	}
	return fmt.Sprintf("An approval of this step counts only after %s. Read what you approve, then answer again.", k.Approval.After)
}

// answeredItself closes a question that the client answered itself. Nothing is decided, counted or
// remembered beyond the run, and the person is asked in another way, if there is one.
func answeredItself(s *State, q run.Question, reflex Reflex) Action {
	reflex.Input, reflex.Delay = q.Input.ID, *s.Measured.Delay
	ev := run.Event{Kind: run.Automated, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Connection: s.Caller.Connection, Delay: s.Measured.Delay, Reason: reflex.said()}
	return Apply{Events: []run.Event{ev}, Then: Look(func(s *State) Action {
		s.Reflex = &reflex
		return nil
	})}
}

// said is what the client did, and why that decides nothing.
func (r Reflex) said() string {
	did := "declined"
	if r.Dismissed {
		did = "closed the question"
	}
	if r.Demanded > 0 {
		return fmt.Sprintf("The answer came in %d ms, and an approval of this step counts only after %s. Nothing is decided", r.Delay.After.Milliseconds(), r.Demanded)
	}
	return fmt.Sprintf("The client %s by itself in %d ms, faster than a person can, so this is not a person's answer. Nothing is decided", did, r.Delay.After.Milliseconds())
}

// AnswersItself is how fast the caller's client answered the same question itself before, through the
// driver; nil: it did not.
func AnswersItself(s *State, in driver.Input, via string) *run.Delay {
	if a := s.Run.Step.AnsweredBy(in.ID, via, s.Caller.Connection, s.Caller.Client.Name); a != nil {
		return &a.Delay
	}
	if s.Itself == nil {
		return nil
	}
	return s.Itself(in, via)
}

// clientAnswers passes over the client that answered the question itself before, and over everybody but
// a person once a client has answered for its person.
func clientAnswers(s *State, w way) Action {
	if waitsOnPage(s, w) {
		return Wait{Task: w.task, Question: s.Run.Step.Question, Meanwhile: true}
	}
	return notTheClient(s, w)
}

// waitsOnPage reports whether the person was given the page after their client answered itself, and this way
// leads nowhere else: passing over it would close the question, whose link they may have open.
func waitsOnPage(s *State, w way) bool {
	q := s.Run.Step.Question
	return notTheClient(s, w) != nil && linkHolds(s, q) && !q.Beside() && q.Elsewhere != "" && q.Input.ID == w.in.ID && outdated(s, w.task, *q) == "" && HasPage(s)
}

func notTheClient(s *State, w way) Action {
	if w.kind.Approves && s.Run.Step.Automatically(w.in.ID) && !w.desc.Has(driver.FeatureHuman) {
		return w.passOver(s, "a client answered for its person, so only a person approves")
	}
	if d := AnswersItself(s, w.in, w.route.Via); d != nil && w.desc.Has(driver.FeatureHuman) {
		return w.passOver(s, itself(*d))
	}
	return nil
}

func itself(d run.Delay) string {
	return fmt.Sprintf("this client answered the same question itself in %d ms, so it is not asked again", d.After.Milliseconds())
}

// LeftLink is the link of a question that a client answered itself, while it is good; nil: there is none.
func LeftLink(s *State, in driver.Input) *run.ApprovalLink {
	l := s.Run.Step.Link
	if l == nil || cmp.Or(l.Input, input.ApprovalKind.Name) != in.ID || !s.Now.Before(l.ExpiresAt) {
		return nil
	}
	return l
}

// ReflexReply turns the reply to a call in which the client answered itself into one that says so.
func ReflexReply(s *State, r api.StepReply) api.StepReply {
	reflex := *s.Reflex
	stopped := r.ErrorCode != "" && r.ErrorCode != string(fault.WaitingForUser) && r.ErrorCode != string(fault.MissingField) && r.ErrorCode != string(fault.MissingInput)
	r.ErrorCode = string(fault.UserDeclined)
	if reflex.Dismissed && !stopped { // else nobody is waited for
		r.ErrorCode, r.RetryAfter = string(fault.WaitingForUser), new(askPersonAgain.Seconds())
	}
	r.Message = plain.Sentences(reflex.said(), r.Message)
	r.RetryCount = &s.Run.Step.Failures
	if !stopped {
		return r
	}
	uri := r.CurrentStep.URI
	r.MustObey, r.NextCall = false, nil
	r.NextAction = fmt.Sprintf("tell the person that this client did not show them the question: they can continue the run from a client that does, "+
		"or the operator can give the server an approval page; or call kairos_attest with %s and outcome failure to end the run", uri)
	return r
}
