package run

import (
	"fmt"
	"slices"
)

func asked(r *Run, e Event) error {
	q := e.Question
	if q == nil {
		return lacks("the question")
	}
	if q.Seq <= r.Seq {
		return fmt.Errorf("question number %d was used before: %w", q.Seq, ErrImpossible)
	}
	if err := r.mayAnswer(q.Input, q.Via, e); err != nil {
		return err
	}
	r.release()
	r.Step.tried(q.Input.ID)
	r.Seq = q.Seq
	if len(q.Earlier) > maxEarlier {
		fewer := *q // the event has it, too
		fewer.Earlier = lastOf(q.Earlier, maxEarlier)
		q = &fewer
	}
	r.Step.Question = q
	r.State = Asking
	return nil
}

func repaired(r *Run, e Event) error {
	if r.Step.Question.Seq != e.Seq {
		return ErrStale
	}
	r.Step.refuse(r.Step.Question.Input.ID, e.Diagnostics)
	return asked(r, e)
}

// unanswered counts a round without an answer. The question stays open.
func unanswered(r *Run, e Event) error {
	if r.Step.Question.Seq != e.Seq {
		return ErrStale
	}
	q := *r.Step.Question // the run before the event has it, too
	q.Unanswered++
	r.Step.Question = &q
	return nil
}

// opened keeps that the page behind the question's link was opened.
func opened(r *Run, e Event) error {
	q := *r.Step.Question // the run before the event has it, too
	switch {
	case q.Seq != e.Seq:
		return ErrStale
	case e.Visit == nil || q.Link == nil || len(q.Link.Opened) >= MaxVisits:
		return lacks("the visit, or a link that it can be kept with")
	}
	link := *q.Link
	link.Opened = append(slices.Clone(link.Opened), *e.Visit)
	q.Link = &link
	r.Step.Question = &q
	return nil
}

// Beside reports whether a person may answer the question on its page while other routes to the
// input are taken. Beside an approval there is no other route.
func (q Question) Beside() bool { return q.Elsewhere != "" && q.Input.ID != approvalInput }

// superseded are the numbers of the question and of those before it, for the one that follows it.
func (q Question) superseded() []int64 {
	return lastOf(append(slices.Clone(q.Earlier), q.Seq), maxEarlier)
}

// premature keeps that work was submitted before it was approved.
func premature(r *Run, e Event) error {
	if e.Digest == "" || !r.Step.Gated {
		return lacks("the digest of the work, or an approval that it needs")
	}
	early := Early{First: e.At}
	if r.Step.Early != nil {
		early = *r.Step.Early
	}
	early.Times++
	early.Digest = e.Digest
	r.Step.Early = &early
	return nil
}

// claimed keeps the digest of evidence that could not count.
func claimed(r *Run, e Event) error {
	if e.Digest == "" {
		return lacks("the digest of the evidence")
	}
	r.Step.Claim = e.Digest
	return nil
}

func answered(r *Run, e Event) error {
	q := r.Step.Question
	if q.Seq != e.Seq {
		return ErrStale
	}
	e.Via = q.Via
	if e.Answer != nil {
		e.Answer.Via = q.Via
	}
	return take(r, q.Input, e)
}

func (r *Run) unask() {
	r.Step.Question = nil
	if r.State == Asking {
		r.State = Open
	}
}
