package plan

import (
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Supplied takes an answer that needed no question.
func Supplied(s *State, k *input.Task, in driver.Input, r decision.Route, a driver.Answer) Action {
	a.InputID, a.Via = in.ID, r.Via
	if problem := doubtOf(s, in, a, r.Via); problem != "" {
		return Close(s, in.ID, r, decision.Errored, problem, 0)
	}
	phrase := PhraseIn(s, k, in)
	to, err := settlement(s, k, in, phrase, false, a)
	switch {
	case err != nil:
		return Halt{Fault: Unavailable("the answer to %q cannot be taken: %v", in.ID, err)}
	case to.Declined:
		return Decline(s, in, r.Via, "not approved", 0)
	case to.Unusable != "":
		return Close(s, in.ID, r, decision.Errored, to.Unusable, 0)
	case to.Refused != "":
		refused := Refuse(fault.MissingField, to.Refused)
		refused.Events = append(settle(s, to.Refused), refused.Events...)
		return refused
	}
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a}
	if input.Of(in.Kind).Approves {
		ev.Approval = NewApproval(s, r, a.Provenance, input.BasisOf(a))
		ev.Approval.Typed = phrase != ""
		ev.Reason = in.Description
	}
	return Apply{Events: []run.Event{ev}, Then: settled(in, a)}
}

// settled is what follows from an answer that is recorded. What is not as the step demands
// makes the whole step wrong, unless it passes anyway.
func settled(in driver.Input, a driver.Answer) Look {
	return func(s *State) Action {
		kind := input.Of(in.Kind)
		switch {
		case kind.Approves:
			return approved(s)
		case kind.Check == nil:
			return renewIfDue(s)
		}
		why, err := kind.Check(s.Task, a)
		switch {
		case err != nil:
			return Halt{Fault: Unavailable("the answer to %q cannot be checked: %v", in.ID, err)}
		case why != "" && s.Task.Common.IsRequired():
			return Reject("", kind.Mismatch, why)
		}
		return renewIfDue(s)
	}
}

// approved shows the step again, with a new nonce, now that it may be worked on. What was
// submitted before is not the work that was approved just now.
func approved(s *State) Action {
	note := fmt.Sprintf("Step %d is approved.", s.Run.Step.Index)
	if s.Run.Step.Early != nil {
		note = plain.Sentences(note, Uncounted)
	}
	return Apply{Note: note, Then: Renew{Show{}}}
}

// renewIfDue gives the step a new nonce when it needs another input besides the one that
// was answered just now, which is then shown, not missed.
func renewIfDue(s *State) Action {
	if !slices.ContainsFunc(s.Run.Step.Inputs, func(in driver.Input) bool { return !input.Of(in.Kind).Internal }) {
		return nil
	}
	return Renew{}
}

// settlement is what the answer comes to by the kind of its input.
func settlement(s *State, k *input.Task, in driver.Input, phrase string, asked bool, a driver.Answer) (input.Settlement, error) {
	kind := input.Of(in.Kind)
	if kind.Settle == nil {
		return input.Settlement{}, nil
	}
	return kind.Settle(k, input.Setting{Run: *s.Run, Chain: *s.Chain, Phrase: phrase, Asked: asked}, a)
}

// Answered takes the answer to a question.
func Answered(s *State, k *input.Task, q run.Question, r decision.Route, a driver.Answer) Action {
	a.InputID, a.Via = q.Input.ID, q.Via
	if problem := doubtOf(s, q.Input, a, q.Via); problem != "" {
		return Close(s, q.Input.ID, r, decision.Errored, problem, q.Seq)
	}
	optional := input.Of(q.Input.Kind).Optional
	to, err := settlement(s, k, q.Input, q.Phrase, true, a)
	switch {
	case err != nil:
		return Halt{Fault: Unavailable("the answer to %q cannot be taken: %v", q.Input.ID, err)}
	case optional && !offerAllowed(s, q, a):
		return LeaveOffer(s, q, "no person allowed it")
	case to.Declined:
		return Decline(s, q.Input, q.Via, "not approved", q.Seq)
	case len(to.Again) > 0:
		return AskAgainBetter(s, k, q, r, to.Again)
	case to.Unusable != "":
		return Close(s, q.Input.ID, r, decision.Errored, to.Unusable, q.Seq)
	case to.Refused != "":
		return Refuse(fault.MissingField, to.Refused)
	}
	if to.Value != nil {
		a.Value = to.Value
	}
	ev := run.Event{Kind: run.Answered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Answer: &a}
	if input.Of(q.Input.Kind).Approves {
		ev.Approval = NewApproval(s, r, a.Provenance, run.BasisForm)
		ev.Approval.Digest, ev.Approval.Typed = q.Digest, q.Phrase != ""
	}
	answered := Apply{Events: []run.Event{ev}, Then: settled(q.Input, a)}
	if optional {
		answered.Then = Allow{q, answered.Then}
	}
	return answered
}

// AskAgainBetter asks again with the diagnostics, as often as the route allows, and
// then takes the next route.
func AskAgainBetter(s *State, k *input.Task, q run.Question, r decision.Route, ds []driver.Diagnostic) Action {
	if s.Caller.Detached || q.Repairs >= r.Retries {
		return Close(s, q.Input.ID, r, decision.Invalid, input.Describe(ds), q.Seq)
	}
	repair := q
	repair.Repairs++
	return Render{Task: k, Question: &repair, Route: r, Diagnostics: ds}
}
