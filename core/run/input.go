package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func needed(r *Run, e Event) error {
	if len(e.Inputs) == 0 {
		return lacks("inputs")
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	if e.Digest != "" && r.Step.Digest != e.Digest {
		// Another question than the one approved: the yes was to something else.
		r.Step.Approval, r.Step.Votes, r.Step.Link = nil, nil, nil
		r.Step.Digest = e.Digest
	}
	r.Step.Inputs = e.Inputs
	if e.Demand != nil {
		r.Step.Demand = e.Demand
	}
	r.Step.Gated = r.Step.Gated || e.Gated
	r.Step.Sensitive = r.Step.Sensitive || slices.ContainsFunc(e.Inputs, func(in driver.Input) bool { return in.Sensitive })
	r.Step.State = e.State
	r.Step.Round++
	r.release()
	return nil
}

// planned keeps what a driver would do. A plan that changes something needs an
// approval of exactly that plan, so an approval of anything else is dropped. So does one for
// which a rule demands an approval.
func planned(r *Run, e Event) error {
	if e.Plan == nil || e.Digest == "" || len(r.Step.Inputs) == 0 {
		return lacks("the plan, its digest, or an input that it is for")
	}
	r.Step.Plan = e.Plan
	if e.Plan.Effect != driver.EffectReads || e.Gated {
		r.Step.Gated = true
	}
	if e.Demand != nil {
		r.Step.Demand = e.Demand
	}
	if r.Step.Digest != e.Digest {
		r.Step.Approval, r.Step.Votes, r.Step.Link, r.Step.Digest = nil, nil, nil, e.Digest
	}
	return nil
}

func supplied(r *Run, e Event) error {
	input, ok := r.Step.input(e.Input)
	if !ok {
		return fmt.Errorf("nobody asked for input %q: %w", e.Input, ErrImpossible)
	}
	if err := r.mayAnswer(input, e.Via, e); err != nil {
		return err
	}
	r.Step.tried(input.ID)
	r.release()
	return take(r, input, e)
}

// take records the answer of an input and closes the question about it.
func take(r *Run, input driver.Input, e Event) error {
	if _, no := r.Step.Declines[input.ID]; no && e.Delay.Under() {
		return fmt.Errorf("input %q was declined, and only a person takes that back, not their client: %w", input.ID, ErrDeclined)
	}
	switch {
	case rules[input.Kind].approves:
		if e.Approval == nil {
			return lacks("the approval")
		}
		if e.Approval.Digest != r.Step.Digest {
			return fmt.Errorf("the approval is for something else than the open evidence: %w", ErrUnapproved)
		}
		if err := r.Step.ofAPerson(*e.Approval); err != nil {
			return err
		}
		r.Step.Approval, r.Step.Votes, r.Step.Link = e.Approval, nil, nil
	case e.Answer == nil || e.Answer.InputID != input.ID:
		return lacks("the answer")
	case rules[input.Kind].accepts:
	case rules[input.Kind].ofRun:
		if r.Step.Index != 1 || len(r.Step.Answers) > 0 {
			return fmt.Errorf("the run's input is fixed once its first step is answered: %w", ErrImpossible)
		}
		r.Input = e.Answer.Value
	default:
		r.Step.discard(r.Step.forget(input.ID), e)
		r.Step.Answers, r.Step.Link = append(r.Step.Answers, *e.Answer), nil
		r.Step.timed(input.ID, e.Delay)
	}
	r.Step.Inputs = slices.DeleteFunc(r.Step.Inputs, func(in driver.Input) bool { return in.ID == input.ID })
	delete(r.Step.Declines, input.ID)
	r.unask()
	return nil
}

// mayAnswer holds the two promises that no route can get around: a person's no
// is undone only through the capability that received it, and gated evidence
// is obtained only after a valid approval.
func (r *Run) mayAnswer(input driver.Input, via string, e Event) error {
	if by, no := r.Step.Declines[input.ID]; no && by != via {
		return fmt.Errorf("input %q was declined through %s: %w", input.ID, by, ErrDeclined)
	}
	if c := r.Step.Call; c != nil {
		if c.Input != input.ID || c.Driver != via {
			return fmt.Errorf("input %q waits for driver %s: %w", c.Input, c.Driver, ErrImpossible)
		}
		e.At, e.Clock = c.At, time.Time{} // what was approved when it began may take its time
	}
	if !r.Step.Gated || rules[input.Kind].ungated {
		return nil
	}
	if by, no := r.Step.Declines[approvalInput]; no {
		return fmt.Errorf("the approval was declined through %s: %w", by, ErrDeclined)
	}
	return r.Step.approved(via, e)
}

func (s Step) approved(via string, e Event) error {
	switch a := s.Approval; {
	case a == nil:
		return ErrUnapproved
	case a.Digest != s.Digest:
		return fmt.Errorf("the approval was for something else: %w", ErrUnapproved)
	case a.Lapsed && s.Call == nil:
		return fmt.Errorf("the approval lapsed during the call that it was for: %w", ErrUnapproved)
	case a.Expired(e.shown()):
		return fmt.Errorf("the approval expired at %s: %w", a.ExpiresAt.Format("15:04:05"), ErrUnapproved)
	case a.ClientReview && a.Via != via:
		return fmt.Errorf("the approval was left to the client's review through %s: %w", a.Via, ErrUnapproved)
	}
	return nil
}

// Approved reports whether evidence may be obtained through the capability
// driver at the time of the event.
func (s Step) Approved(via string, e Event) bool { return !s.Gated || s.approved(via, e) == nil }

func routeClosed(r *Run, e Event) error {
	if e.Attempt == nil {
		return lacks("the attempt")
	}
	if q := r.Step.Question; q != nil && (e.Seq != 0 || !q.Beside()) {
		if e.Seq != 0 && e.Seq != q.Seq {
			return ErrStale
		}
		if q.Human && e.Seq == 0 { // it may still be in another client's form
			r.Step.Superseded = q.superseded()
		}
		r.Step.keepLink()
		r.unask()
	} else if !e.Attempt.Untried {
		r.Step.tried(e.Attempt.Input) // else the question counted
	}
	if c := r.Step.Call; c != nil && c.Input == e.Attempt.Input {
		r.release()
	}
	r.Step.refuse(e.Attempt.Input, e.Diagnostics)
	r.Step.lookFailed(e)
	if p := r.Step.Plan; p != nil && p.Driver == e.Attempt.Via && !e.Attempt.Untried && len(p.Proposed) == 0 {
		// It could not do what it planned, so it plans anew. The approval stays for
		// the same plan, and is dropped for any other.
		r.Step.Plan = nil
	}
	if a := r.Step.Approval; a != nil && a.ClientReview && a.Via == e.Attempt.Via {
		// The review cannot happen any more, so it approves nothing.
		r.Step.Approval = nil
	}
	r.Step.close(*e.Attempt)
	return nil
}

func declined(r *Run, e Event) error {
	if e.Input == "" || e.Via == "" {
		return lacks("the input or who declined it")
	}
	if q := r.Step.Question; q != nil && e.Seq != 0 && q.Seq != e.Seq {
		return ErrStale
	}
	if by, no := r.Step.Declines[e.Input]; no && by != e.Via {
		return fmt.Errorf("input %q was declined through %s: %w", e.Input, by, ErrDeclined)
	}
	if c := r.Step.Call; c != nil && c.Input != "" && c.Input != e.Input {
		return fmt.Errorf("input %q waits for driver %s: %w", c.Input, c.Driver, ErrImpossible)
	}
	if r.Step.Question == nil {
		r.Step.tried(e.Input)
	}
	r.Step.tried("")
	r.release()
	if r.Step.Declines == nil {
		r.Step.Declines = map[string]string{}
	}
	r.Step.Declines[e.Input] = e.Via
	r.Step.DeclineCount++
	r.Step.LastDecline = &Decline{At: e.At, Via: e.Via, Reason: e.Reason}
	if e.Input == approvalInput {
		r.Step.Approval, r.Step.Votes = nil, nil
	}
	r.Step.discard(r.Step.forget(e.Input), e)
	r.unask()
	if e.Apart {
		r.Step.PendingDecline = cmp.Or(e.Reason, "no reason given")
	}
	return nil
}

// undeclined lets a person be asked again what people declined at the open step. In a run that
// has ended it changes nothing.
func undeclined(r *Run, e Event) error {
	if e.By == "" {
		return lacks("who takes the decline back")
	}
	if !r.State.Live() {
		return nil
	}
	r.Step.Declines = map[string]string{}
	r.Step.DeclineCount, r.Step.PendingDecline = 0, ""
	if d := r.Step.LastDecline; d != nil && d.TakenBack.IsZero() {
		back := *d // the run before the event has it, too
		back.TakenBack, back.By, back.Why = e.At, e.By, e.Reason
		r.Step.LastDecline = &back
	}
	return nil
}

func told(r *Run, _ Event) error {
	if r.Step.PendingDecline == "" {
		return lacks("anything to tell")
	}
	r.Step.PendingDecline = ""
	return nil
}

func lapsed(r *Run, e Event) error {
	a, q := r.Step.Approval, r.Step.Question
	setBack := e.shown().Before(r.ChangedAt())
	approved := a != nil && (setBack || a.Expired(e.shown()))
	linked := setBack && q != nil && q.Link != nil
	voted := setBack && len(r.Step.Votes) > 0
	switch {
	case !approved && !linked && !voted:
		return lacks("an approval or a link that is too old")
	case approved && r.Step.Call != nil:
		covers := *a // the run before the event has it, too
		covers.Lapsed = true
		r.Step.Approval = &covers
	case approved:
		r.Step.Approval = nil
	}
	if voted {
		r.Step.Votes = nil
	}
	if linked {
		asked, link := *q, *q.Link
		link.ExpiresAt = e.shown()
		asked.Link = &link
		r.Step.Question = &asked
	}
	return nil
}

// forget drops the answer to an input, and returns what it dropped.
func (s *Step) forget(inputID string) (dropped []driver.Answer) {
	s.Answers = slices.DeleteFunc(s.Answers, func(a driver.Answer) bool {
		if a.InputID == inputID {
			dropped = append(dropped, a)
		}
		return a.InputID == inputID
	})
	return dropped
}

// refuse keeps why the answer to an input was refused, for the next attempt.
func (s *Step) refuse(inputID string, why []driver.Diagnostic) {
	if len(why) == 0 {
		return
	}
	if s.Refused == nil {
		s.Refused = make(map[string][]driver.Diagnostic)
	}
	s.Refused[inputID] = why
}

// input finds what is open under the id: an input the driver asked for, or the
// approval in front of it.
func (s Step) input(id string) (driver.Input, bool) {
	if id == approvalInput && s.Gated {
		return driver.Input{ID: approvalInput, Kind: approvalInput}, true
	}
	for _, in := range s.Inputs {
		if in.ID == id {
			return in, true
		}
	}
	return driver.Input{}, false
}
