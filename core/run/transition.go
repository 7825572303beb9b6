package run

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ErrImpossible is returned, wrapped, for an event that the run's state does
// not allow. The run is unchanged.
var ErrImpossible = errors.New("impossible in this state")

// ErrStale is returned, wrapped, for an answer to a question that is no longer open.
var ErrStale = errors.New("question is no longer open")

// ErrDeclined is returned, wrapped, when something else than the capability
// that received a person's no would answer the same input.
var ErrDeclined = errors.New("a person said no")

// ErrUnapproved is returned, wrapped, when evidence would be obtained without
// the approval that must stand in front of it.
var ErrUnapproved = errors.New("not approved")

type change func(r *Run, e Event) error

// transitions is the whole state machine: what is not listed is impossible.
var transitions = map[State]map[Kind]change{
	Open: {
		Needed: needed, Asked: asked, Premature: premature, Supplied: supplied, RouteClosed: routeClosed, Declined: declined,
		Accepted: accepted, Withheld: withheld, Rejected: rejected, Refused: refused, Reissued: reissued, Restarted: restarted, Lapsed: lapsed, Told: told,
		Called: called, Deferred: deferred,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted,
	},
	Waiting: {
		Needed: needed, Asked: asked, Supplied: supplied, RouteClosed: routeClosed, Declined: declined,
		Accepted: accepted, Withheld: withheld, Rejected: rejected, Refused: refused, Reissued: reissued, Restarted: restarted, Told: told,
		Deferred: deferred, Lapsed: lapsed, Unsettled: unsettled, Settled: settled, Decided: decided,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted,
	},
	Asking: {
		Asked: asked, Answered: answered, Repaired: repaired, Unanswered: unanswered, Dismissed: repaired, Opened: opened, Premature: premature, Supplied: supplied, RouteClosed: routeClosed,
		Declined: declined, Refused: refused, Reissued: reissued, Restarted: restarted, Lapsed: lapsed, Told: told,
		Called: called, Deferred: deferred,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted,
	},
	Complete: {Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted},
	Closed:   {Redacted: redacted},
	Ended:    {Redacted: redacted},
}

// Apply returns the run after the event, or the unchanged run and an error.
func Apply(r Run, e Event) (Run, error) {
	do, ok := transitions[r.State][e.Kind]
	if !ok {
		return r, fmt.Errorf("%s of run %s in state %s: %w", e.Kind, r.ID, r.State, ErrImpossible)
	}
	if e.Run != r.ID || e.Step != r.Step.Index {
		return r, fmt.Errorf("%s for step %d of run %s, but run %s is at step %d: %w",
			e.Kind, e.Step, e.Run, r.ID, r.Step.Index, ErrImpossible)
	}
	if e.At.Before(r.UpdatedAt) {
		return r, fmt.Errorf("%s of run %s at %s, but it was last changed at %s: %w",
			e.Kind, r.ID, e.At.Format(time.RFC3339Nano), r.UpdatedAt.Format(time.RFC3339Nano), ErrImpossible)
	}
	next := r.clone()
	if err := do(&next, e); err != nil {
		return r, fmt.Errorf("%s of run %s: %w", e.Kind, r.ID, err)
	}
	next.UpdatedAt, next.Clock = e.At, e.Clock
	next.Spent = next.Spent.Plus(e.Spent)
	return next, nil
}

// clone copies what changes append to or write into.
func (r Run) clone() Run {
	r.Nonces = slices.Clone(r.Nonces)
	r.SolvedBy = slices.Clone(r.SolvedBy)
	r.Proofs = slices.Clone(r.Proofs)
	r.Evidence = slices.Clone(r.Evidence)
	r.Step.Inputs = slices.Clone(r.Step.Inputs)
	r.Step.Answers = slices.Clone(r.Step.Answers)
	r.Step.Tried = slices.Clone(r.Step.Tried)
	declines := make(map[string]string, len(r.Step.Declines))
	for k, v := range r.Step.Declines {
		declines[k] = v
	}
	r.Step.Declines = declines
	r.Step.Attempts = maps.Clone(r.Step.Attempts)
	r.Step.Refused = maps.Clone(r.Step.Refused)
	return r
}

func lacks(what string) error { return fmt.Errorf("event lacks %s: %w", what, ErrImpossible) }

func needed(r *Run, e Event) error {
	if len(e.Inputs) == 0 {
		return lacks("inputs")
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	if e.Digest != "" && r.Step.Digest != e.Digest {
		// Another question than the one approved: the yes was to something else.
		r.Step.Approval = nil
		r.Step.Digest = e.Digest
	}
	r.Step.Inputs = e.Inputs
	r.Step.Gated = r.Step.Gated || e.Gated
	r.Step.Sensitive = r.Step.Sensitive || slices.ContainsFunc(e.Inputs, func(in driver.Input) bool { return in.Sensitive })
	r.Step.State = e.State
	r.Step.Round++
	r.release()
	return nil
}

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
	switch {
	case input.Kind == driver.KindApproval:
		if e.Approval == nil {
			return lacks("the approval")
		}
		if e.Approval.Digest != r.Step.Digest {
			return fmt.Errorf("the approval is for something else than the open evidence: %w", ErrUnapproved)
		}
		r.Step.Approval = e.Approval
	case e.Answer == nil || e.Answer.InputID != input.ID:
		return lacks("the answer")
	case input.Kind == driver.KindRunInput:
		if r.Step.Index != 1 || len(r.Step.Answers) > 0 {
			return fmt.Errorf("the run's input is fixed once its first step is answered: %w", ErrImpossible)
		}
		r.Input = e.Answer.Value
	default:
		r.Step.forget(input.ID)
		r.Step.Answers = append(r.Step.Answers, *e.Answer)
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
	switch {
	case !r.Step.Gated, input.Kind == driver.KindApproval, input.Kind == driver.KindSimilarity:
		return nil
	case input.Kind == driver.KindFiles, input.Kind == driver.KindJudge:
		// They come behind the work, which is what was approved.
		return nil
	}
	if by, no := r.Step.Declines[driver.KindApproval]; no {
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
	if q := r.Step.Question; q != nil {
		if e.Seq != 0 && e.Seq != q.Seq {
			return ErrStale
		}
		r.unask()
	} else if !e.Attempt.Untried {
		r.Step.tried(e.Attempt.Input) // else the question counted
	}
	if c := r.Step.Call; c != nil && c.Input == e.Attempt.Input {
		r.release()
	}
	r.Step.refuse(e.Attempt.Input, e.Diagnostics)
	if a := r.Step.Approval; a != nil && a.ClientReview && a.Via == e.Attempt.Via {
		// The review cannot happen any more, so it approves nothing.
		r.Step.Approval = nil
	}
	r.Step.Tried = append(r.Step.Tried, *e.Attempt)
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
	r.Step.Declines[e.Input] = e.Via
	r.Step.Noes++
	if e.Input == driver.KindApproval {
		r.Step.Approval = nil
	}
	r.Step.forget(e.Input)
	r.unask()
	if e.Apart {
		r.Step.UntoldNo = cmp.Or(e.Reason, "no reason given")
	}
	return nil
}

func told(r *Run, _ Event) error {
	if r.Step.UntoldNo == "" {
		return lacks("anything to tell")
	}
	r.Step.UntoldNo = ""
	return nil
}

func lapsed(r *Run, e Event) error {
	a, q := r.Step.Approval, r.Step.Question
	setBack := e.shown().Before(r.ChangedAt())
	approved := a != nil && (setBack || a.Expired(e.shown()))
	linked := setBack && q != nil && q.Link != nil
	switch {
	case !approved && !linked:
		return lacks("an approval or a link that is too old")
	case approved && r.Step.Call != nil:
		covers := *a // the run before the event has it, too
		covers.Lapsed = true
		r.Step.Approval = &covers
	case approved:
		r.Step.Approval = nil
	}
	if linked {
		asked, link := *q, *q.Link
		link.ExpiresAt = e.shown()
		asked.Link = &link
		r.Step.Question = &asked
	}
	return nil
}

func accepted(r *Run, e Event) error {
	switch {
	case e.Proof == nil || e.Evidence == nil:
		return lacks("the proof or its evidence")
	case len(r.Step.Declines) > 0:
		return ErrDeclined
	case len(r.Step.Inputs) > 0:
		return fmt.Errorf("input %q has no answer: %w", r.Step.Inputs[0].ID, ErrImpossible)
	case len(r.Step.Answers) == 0:
		return fmt.Errorf("nothing was answered: %w", ErrImpossible)
	case e.Proof.Previous != r.ProofHash():
		return fmt.Errorf("the proof does not continue the chain: %w", ErrImpossible)
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	if err := e.Proof.check(r.Step.Index); err != nil {
		return fmt.Errorf("%w: %w", err, ErrImpossible)
	}
	r.release()
	last := r.Step.Index == r.StepCount
	if !last {
		if err := r.fresh(e.Nonce); err != nil {
			return err
		}
	}
	r.Nonces = append(r.Nonces, r.Step.Nonce)
	r.SolvedBy = append(r.SolvedBy, r.Step.Nonce)
	r.Proofs = append(r.Proofs, *e.Proof)
	r.Evidence = append(r.Evidence, *e.Evidence)
	r.Step = Step{Index: r.Step.Index + 1, Nonce: e.Nonce}
	if last {
		r.Step.Nonce = ""
		r.State = Complete
	}
	return nil
}

// withheld keeps an accepted verdict beside the one input that is still open,
// the judge's.
func withheld(r *Run, e Event) error {
	switch {
	case e.Held == nil || len(e.Inputs) != 1 || e.Inputs[0].Kind != driver.KindJudge:
		return lacks("the verdict or the judge's input")
	case len(r.Step.Inputs) > 0:
		return fmt.Errorf("input %q has no answer: %w", r.Step.Inputs[0].ID, ErrImpossible)
	case r.Step.Held != nil || len(r.Step.Answers) == 0:
		return fmt.Errorf("a verdict is held already, or nothing was answered: %w", ErrImpossible)
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	r.release()
	r.Step.Held, r.Step.Inputs = e.Held, e.Inputs
	return nil
}

func rejected(r *Run, e Event) error {
	if e.Code == "" {
		return lacks("the error code")
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	r.release()
	r.Step.tried("")
	for _, a := range r.Step.Answers {
		r.Step.refuse(a.InputID, e.Diagnostics)
	}
	// An approval is for one attempt, and the next one may use any route.
	r.Step = Step{
		Index: r.Step.Index, Nonce: r.Step.Nonce, Failures: r.Step.Failures + 1, Declines: r.Step.Declines, Noes: r.Step.Noes,
		Early: r.Step.Early, Attempts: r.Step.Attempts, Refused: r.Step.Refused,
	}
	return nil
}

func refused(r *Run, e Event) error {
	if e.Code == "" {
		return lacks("the error code")
	}
	r.Step.Failures++
	return nil
}

func reissued(r *Run, e Event) error {
	if err := r.fresh(e.Nonce); err != nil {
		return err
	}
	r.Nonces = append(r.Nonces, r.Step.Nonce)
	r.Step.Nonce = e.Nonce
	if e.Connection != "" {
		r.Connection = e.Connection
	}
	return nil
}

func restarted(r *Run, _ Event) error {
	if c := r.Step.Call; c != nil && c.Acts {
		return fmt.Errorf("what came of the call of driver %s is not known: %w", c.Driver, ErrImpossible)
	}
	r.Step.tried("")
	superseded := r.Step.Superseded
	if q := r.Step.Question; q != nil && q.Human {
		superseded = append(slices.Clone(q.Earlier), q.Seq)
	}
	r.Step = Step{
		Index: r.Step.Index, Nonce: r.Step.Nonce, Failures: r.Step.Failures, Declines: r.Step.Declines, Noes: r.Step.Noes,
		Superseded: superseded, UntoldNo: r.Step.UntoldNo, Early: r.Step.Early, Attempts: r.Step.Attempts, Refused: r.Step.Refused,
	}
	r.State = Open
	return nil
}

func attested(r *Run, e Event) error {
	if e.Outcome == "" {
		return lacks("the outcome")
	}
	r.Outcome = e.Outcome
	r.unask()
	r.State = Closed
	return nil
}

func ended(r *Run, _ Event) error {
	r.unask()
	r.State = Ended
	return nil
}

// forget drops the answer to an input.
func (s *Step) forget(inputID string) {
	s.Answers = slices.DeleteFunc(s.Answers, func(a driver.Answer) bool { return a.InputID == inputID })
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

func (r *Run) unask() {
	r.Step.Question = nil
	if r.State == Asking {
		r.State = Open
	}
}

func (r *Run) fresh(nonce string) error {
	if nonce == "" || nonce == r.Step.Nonce || slices.Contains(r.Nonces, nonce) {
		return fmt.Errorf("the next nonce is missing or was used before: %w", ErrImpossible)
	}
	return nil
}

// input finds what is open under the id: an input the driver asked for, or the
// approval in front of it.
func (s Step) input(id string) (driver.Input, bool) {
	if id == driver.KindApproval && s.Gated {
		return driver.Input{ID: driver.KindApproval, Kind: driver.KindApproval}, true
	}
	for _, in := range s.Inputs {
		if in.ID == id {
			return in, true
		}
	}
	return driver.Input{}, false
}
