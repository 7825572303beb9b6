package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

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
	if r.Held == len(r.Evidence) {
		r.Held++
	}
	r.proved(r.Step.Nonce, e.Proof, e.Evidence)
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
	case e.Withheld == nil || len(e.Inputs) != 1 || !rules[e.Inputs[0].Kind].judges:
		return lacks("the verdict or the judge's input")
	case len(r.Step.Inputs) > 0:
		return fmt.Errorf("input %q has no answer: %w", r.Step.Inputs[0].ID, ErrImpossible)
	case r.Step.Withheld != nil || len(r.Step.Answers) == 0:
		return fmt.Errorf("a verdict is withheld already, or nothing was answered: %w", ErrImpossible)
	}
	if err := r.mayJudge(); err != nil {
		return err
	}
	r.release()
	r.Step.Withheld, r.Step.Inputs = e.Withheld, e.Inputs
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
	r.Step = r.Step.again(e)
	r.Step.fail(e)
	return nil
}

// again is the step before another attempt at it. An approval is for one attempt,
// and the next one may use any route.
func (s Step) again(e Event) Step {
	s.discard(s.Answers, e)
	s.discardLook(e)
	return Step{
		Index: s.Index, Nonce: s.Nonce, Tries: s.Tries, Declines: s.Declines, DeclineCount: s.DeclineCount, LastDecline: s.LastDecline,
		Early: s.Early, Done: s.done(e.At), Claim: s.Claim, Attempts: s.Attempts, Refused: s.Refused,
		Automatic: s.Automatic, Events: s.Events, EventBytes: s.EventBytes,
	}
}

// done is what drivers did for the step so far, this attempt included.
func (s Step) done(at time.Time) *Done {
	p := s.Plan
	if p == nil || p.Effect == driver.EffectReads || !slices.ContainsFunc(s.Answers, func(a driver.Answer) bool { return a.Via == p.Driver }) {
		return s.Done
	}
	d := Done{Driver: p.Driver, Times: 1, Last: at}
	if s.Done != nil {
		d.Times += s.Done.Times
	}
	return &d
}

func refused(r *Run, e Event) error {
	if e.Code == "" {
		return lacks("the error code")
	}
	r.Step.fail(e)
	return nil
}

func reissued(r *Run, e Event) error {
	if err := r.fresh(e.Nonce); err != nil {
		return err
	}
	if !r.Step.full() { // the events report the nonces that are used up
		r.usedUp(r.Step.Nonce)
	}
	r.Step.Nonce = e.Nonce
	if e.Connection != "" {
		r.Connection = e.Connection
	}
	return nil
}

func restarted(r *Run, e Event) error {
	if c := r.Step.Call; c != nil && c.Acts {
		return fmt.Errorf("what came of the call of driver %s is not known: %w", c.Driver, ErrImpossible)
	}
	r.Step.tried("")
	before := r.Step
	r.Step = before.again(e)
	r.Step.Superseded, r.Step.PendingDecline = before.Superseded, before.PendingDecline
	if q := before.Question; q != nil && q.Human {
		r.Step.Superseded = q.superseded()
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

func ended(r *Run, ev Event) error {
	r.unask()
	r.State, r.EndedBy = Ended, ev.Kind
	return nil
}

func (r *Run) fresh(nonce string) error {
	if nonce == "" || nonce == r.Step.Nonce || slices.Contains(r.Nonces, nonce) {
		return fmt.Errorf("the next nonce is missing or was used before: %w", ErrImpossible)
	}
	return nil
}
