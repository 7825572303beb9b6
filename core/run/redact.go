package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Redaction erases values from a run and leaves their digests. What is not
// known to hold no value goes: a field that is added later is erased with the
// rest until it is named here.
type Redaction struct {
	// Steps that are solved and whose evidence goes, 1-based.
	Steps []int `json:"steps"`
	// Quoting are other steps: their evidence stays, but what was asked for them
	// holds values of Steps.
	Quoting []int `json:"quoting,omitempty"`
	// Whole: of a run that has ended also its input, its roots, and what is left
	// of a step that was never solved.
	Whole bool `json:"whole,omitempty"`
}

// StepsText names steps for people: "step 2", "steps 1, 2, 4", "no step".
func StepsText(steps []int) string {
	switch len(steps) {
	case 0:
		return "no step"
	case 1:
		return fmt.Sprintf("step %d", steps[0])
	}
	words := make([]string, len(steps))
	for i, n := range steps {
		words[i] = strconv.Itoa(n)
	}
	return "steps " + strings.Join(words, ", ")
}

// String tells what is erased.
func (d Redaction) String() string {
	what := fmt.Sprintf("the evidence of %s is erased", StepsText(d.Steps))
	if len(d.Quoting) > 0 {
		what += fmt.Sprintf(", and what was asked in %s, which quoted it", StepsText(d.Quoting))
	}
	if d.Whole {
		what += ", and the run's input"
	}
	return what
}

func redacted(r *Run, e Event) error {
	if e.Redaction == nil || len(e.Redaction.Steps) == 0 && !e.Redaction.Whole {
		return lacks("what to redact")
	}
	if e.Redaction.Whole && r.State.Live() {
		return fmt.Errorf("the run can still continue and needs its values: %w", ErrImpossible)
	}
	r.Evidence = slices.Clone(r.Evidence)
	for _, n := range e.Redaction.Steps {
		if n < 1 || n > len(r.Proofs) {
			return fmt.Errorf("step %d is not solved: %w", n, ErrImpossible)
		}
		left := r.Evidence[n-1].redacted(e.At)
		r.Evidence[n-1] = &left
	}
	if e.Redaction.Whole {
		r.Input, r.Roots = nil, nil
		s := r.Step
		r.Step = Step{Index: s.Index, Nonce: s.Nonce, Tries: s.redacted(), DeclineCount: s.DeclineCount, Digest: s.Digest}
	}
	return nil
}

// redacted is what is left of evidence: how it was answered and approved, not what, and not by
// whom.
func (v Evidence) redacted(at time.Time) Evidence {
	if v.Erased() {
		return v
	}
	left := Evidence{Approval: v.Approval.unnamed(), Failed: v.Failed, Delays: v.Delays, Permission: v.Permission, RedactedAt: at.UTC()}
	if v.Tries != nil {
		tries := v.Tries.redacted()
		left.Tries = &tries
	}
	for _, a := range v.Answers {
		left.Answers = append(left.Answers, redactedAnswer(a))
	}
	return left
}

func redactedAnswer(a driver.Answer) driver.Answer {
	return driver.Answer{InputID: a.InputID, Provenance: a.Provenance, Via: a.Via, Model: a.Model, StopReason: a.StopReason}
}

// Redacted is the event without the values that the redaction erases, which happens
// at that time.
func (d Redaction) Redacted(e Event, at time.Time) Event {
	switch {
	case e.Kind == Redacted:
		return e
	case d.Whole, slices.Contains(d.Steps, e.Step):
		return e.redacted(at)
	case slices.Contains(d.Quoting, e.Step):
		left := e.redacted(at)
		left.Answer, left.Evidence, left.Code = e.Answer, e.Evidence, e.Code
		left.Approval, left.Vote, left.By, left.Name, left.Decision = e.Approval, e.Vote, e.By, e.Name, e.Decision
		return left
	}
	return e
}

func (e Event) redacted(at time.Time) Event {
	left := Event{
		Kind: e.Kind, Run: e.Run, Step: e.Step, At: e.At, Clock: e.Clock, Gated: e.Gated, Digest: e.Digest, Seq: e.Seq, Input: e.Input, Via: e.Via,
		Approval: e.Approval.unnamed(), Vote: e.Vote.unnamed(), By: unnamed(e.By), Proof: e.Proof, Nonce: e.Nonce, Solves: e.Solves, Connection: e.Connection, Code: e.Code, Outcome: e.Outcome, Bonus: e.Bonus,
		Spent: e.Spent, Took: e.Took, Visit: e.Visit, Delay: e.Delay, Owner: e.Owner,
	}
	if d := e.Decision; d != nil {
		left.Decision = &Decision{Happened: d.Happened, By: unnamed(d.By)}
	}
	if e.Call != nil {
		left.Call = e.Call.redacted()
	}
	if e.Plan != nil {
		left.Plan = e.Plan.redacted()
	}
	for _, in := range e.Inputs {
		left.Inputs = append(left.Inputs, redactedInput(in))
	}
	if q := e.Question; q != nil {
		left.Question = &Question{
			Seq: q.Seq, Input: redactedInput(q.Input), Digest: q.Digest, Via: q.Via, Route: q.Route, Human: q.Human, Asked: q.Asked,
			Unanswered: q.Unanswered, Repairs: q.Repairs, Earlier: q.Earlier, AskedAt: q.AskedAt, Client: q.Client, Driver: q.Driver,
		}
	}
	if a := e.Answer; a != nil {
		answer := redactedAnswer(*a)
		left.Answer = &answer
	}
	if a := e.Attempt; a != nil {
		left.Attempt = &Attempt{Input: a.Input, Route: a.Route, Via: a.Via, Outcome: a.Outcome, At: a.At, Untried: a.Untried}
	}
	if v := e.Evidence; v != nil {
		evidence := v.redacted(at)
		left.Evidence = &evidence
	}
	return left
}

func redactedInput(in driver.Input) driver.Input {
	return driver.Input{ID: in.ID, Kind: in.Kind, Type: in.Type}
}
