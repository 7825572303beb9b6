package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Reading is what a driver reads in the client's reply to a question.
type Reading struct {
	Result      driver.InterpretResult
	Err         error
	ClientError *driver.ClientError // that the client replied with; may be nil
}

// Replied takes the client's reply to a question as its driver reads it.
func Replied(s *State, k *input.Task, q run.Question, in Reading) Action {
	res, r, optional := in.Result, RouteOf(s, q), input.Of(q.Input.Kind).Optional
	unread := in.Err != nil || res.Answer == nil && res.Declined == nil && res.Invalid == nil
	switch {
	case in.Err == nil && res.Missing != nil && q.Link != nil && !q.Link.ReadOnly:
		return openedPage(s, k, q)
	case in.ClientError != nil && outcomeOf(in.ClientError) == decision.Errored && shortPossible(s, q):
		return askShort(s, k, q, r)
	case !optional && automatic(s, k, q, in):
		return answeredItself(s, q, Reflex{Dismissed: in.Err == nil && res.Dismissed != nil})
	case in.Err == nil && res.Dismissed != nil && q.Human && !optional:
		return dismissed(s, k, q, res.Dismissed.Reason)
	case optional && res.Answer == nil && in.ClientError == nil:
		return LeaveOffer(s, q, cmp.Or(s.Measured.Delay.Words(), "the person did not answer with yes"))
	case q.Human && in.ClientError == nil && unread:
		// The person has answered, perhaps with a decline. Until they are asked again it
		// counts as one, so that nobody else answers in their place.
		no := run.Event{Kind: run.Declined, Input: q.Input.ID, Via: q.Via, Seq: q.Seq, Reason: "the answer could not be read"}
		return Apply{Events: []run.Event{no}, Then: Halt{Fault: fault.Wrap(in.Err, fault.DriverUnavailable,
			"driver %s could not read what the person answered to step %d; call kairos_next again to have them asked again", q.Via, k.Where.Index)}}
	case in.Err != nil:
		return Close(s, q.Input.ID, r, decision.Errored, in.Err.Error(), q.Seq)
	case res.Answer != nil:
		return Answered(s, k, q, r, *res.Answer)
	case res.Declined != nil:
		return Decline(s, q.Input, q.Via, res.Declined.Reason, q.Seq)
	case res.Invalid != nil:
		return AskAgainBetter(s, k, q, r, res.Invalid.Diagnostics)
	case res.Unavailable != nil:
		return Close(s, q.Input.ID, r, outcomeOf(in.ClientError), res.Unavailable.Reason, q.Seq)
	case res.Missing != nil:
		return Close(s, q.Input.ID, r, decision.Invalid, res.Missing.Reason, q.Seq)
	}
	return Close(s, q.Input.ID, r, decision.Errored, "driver gave no outcome", q.Seq)
}

// outcomeOf tells a client that failed from one that never could.
func outcomeOf(e *driver.ClientError) decision.Outcome {
	const methodNotFound = -32601
	if e != nil && e.Code != methodNotFound {
		return decision.Errored
	}
	return decision.Unavailable
}

// Unsubmitted is what happens where the submission holds nothing that answers the input as it
// is shown; nil if it does.
func Unsubmitted(s *State, a Read, shown driver.AgentChallenge) Action {
	given := s.Solution
	switch {
	case given.Supplied() && given.Type != shown.Type:
		return Refuse(fault.TypeMismatch, fmt.Sprintf("the open challenge is of type %q, the solution of type %q", shown.Type, given.Type))
	case given.Supplied():
		return nil
	case s.Run.Step.Index == s.Target:
		return Reply{LeftOutReply(s, a.Task, a.Input, shown, NothingGiven)}
	}
	return Reply{StepReply(s, a.Task, a.Input, shown)}
}

// NotFilledIn says that the agent sent back placeholders of next_call. An omission is
// missing, not wrong.
func NotFilledIn(s *State, a Read, shown driver.AgentChallenge, left []string) Action {
	return Reply{LeftOutReply(s, a.Task, a.Input, shown, fmt.Sprintf("Solution is missing: %s still hold the placeholders of next_call. "+
		"Replace each by what really happened, and leave out what is optional and not known", plain.Clip(strings.Join(left, ", "), 500)))}
}

// Submitted takes what the agent submitted as its driver reads it.
func Submitted(s *State, a Read, shown driver.AgentChallenge, in Reading) Action {
	res, via := in.Result, a.Route.Via
	switch {
	case in.Err != nil:
		return Halt{Fault: fault.Wrap(in.Err, fault.DriverUnavailable, "driver %s could not read the solution, the step stays open: %s", via, plain.Clip(in.Err.Error(), 600))}
	case res.Answer != nil:
		// This came from the agent, even if the driver claims more.
		res.Answer.Provenance = driver.AgentReported
		return Supplied(s, a, driver.ByAgent, *res.Answer)
	case res.Declined != nil:
		return Decline(s, a.Input, via, res.Declined.Reason, 0)
	case res.Missing != nil:
		return Reply{LeftOutReply(s, a.Task, a.Input, shown, NothingGiven)}
	case res.Invalid != nil:
		return Refuse(fault.MissingField, "the solution is not an answer: "+input.Describe(res.Invalid.Diagnostics))
	case res.Unavailable != nil:
		return Halt{Fault: Unavailable("driver %s cannot read the solution: %s", via, res.Unavailable.Reason)}
	}
	return Halt{Fault: Unavailable("driver %s gave no outcome", via)}
}

// Supplied takes an answer that needed no question. How is the way in which an approval was given.
func Supplied(s *State, of Read, how string, a driver.Answer) Action {
	k, in, r := of.Task, of.Input, of.Route
	a.InputID, a.Via = in.ID, r.Via
	if problem := doubtOf(s, in, a, r.Via); problem != "" {
		return Close(s, in.ID, r, decision.Errored, problem, 0)
	}
	phrase := PhraseIn(k, in)
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
	ev := run.Event{Kind: run.Supplied, Input: in.ID, Via: r.Via, Answer: &a, Sent: of.Sent}
	if input.Of(in.Kind).Approves {
		ev.Approval = NewApproval(s, r, a.Provenance, run.Basis(how))
		ev.Approval.AskedFor(phrase)
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
	if after := tooFast(k, q, s.Measured.Delay); after > 0 && s.Measured.Delay != nil {
		return answeredItself(s, q, Reflex{Demanded: after})
	}
	if why := outdated(s, k, q); why != "" {
		return Close(s, q.Input.ID, r, decision.Unavailable, why, q.Seq)
	}
	optional := input.Of(q.Input.Kind).Optional
	to, err := settlement(s, k, q.Input, q.Phrase, true, a)
	switch {
	case err != nil:
		return Halt{Fault: Unavailable("the answer to %q cannot be taken: %v", q.Input.ID, err)}
	case optional && !offerAllowed(s, q, a):
		return LeaveOffer(s, q, "no person accepted it")
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
		ev.Approval = NewApproval(s, r, a.Provenance, run.Basis(q.How))
		ev.Approval.Digest = q.Digest
		ev.Approval.AskedFor(q.Phrase)
	}
	answered := Apply{Events: []run.Event{ev}, Then: settled(q.Input, a)}
	if optional {
		answered.Then = KeepAccepted{q, answered.Then}
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
