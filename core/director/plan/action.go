package plan

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Action is what is to be done next: one of the types of this file. A rule returns nil
// if it has nothing to say; an action that is done and returns nil has the rules look again.
type Action interface{ isAction() }

type (
	// Apply records events. Then is what follows; nil has the rules look again.
	Apply struct {
		Events []run.Event
		// Note is what the reply says besides.
		Note string
		// Used: the submission is dealt with.
		Used bool
		Then Action
	}
	// Look has a rule look at what was recorded just now.
	Look func(*State) Action
	// Remember keeps a person's decline beyond the run, before the run is saved.
	Remember struct {
		Decline declines.Decline
		Then    Action
	}
	// KeepAccepted keeps what a person accepted by the answer to the question.
	KeepAccepted struct {
		Question run.Question
		Then     Action
	}
	// Renew gives the step a new nonce. The submission is dealt with, and its nonce cannot
	// be used for what the step needs next.
	Renew struct{ Then Action }
	// Omit says that the submission lacks something: nothing of it is used or counted.
	Omit struct{ Why string }
	// Show shows the open step, whatever is due at it, and asks nobody. A failure is
	// reported beside it, and uses up the submission.
	Show struct{ Failure *Failure }
	// Reply ends the call.
	Reply struct{ api.StepReply }
	// Wait ends the call with a reply that says what is waited for: a person's answer to
	// the question, or a driver's to the call. Meanwhile says that the call may wait itself.
	Wait struct {
		Task      *input.Task
		Question  *run.Question
		Call      *run.Call
		Meanwhile bool
	}
	// Halt ends the call without counting anything. Acceptable: the reply says as well what
	// would let a driver do the step.
	Halt struct {
		Fault      *fault.Error
		Acceptable bool
	}
	// Need looks up what the rules want to know.
	Need struct{ Lookup Lookup }
	// Obtain obtains an input of the run or of the open step by its next route.
	Obtain struct{ Input driver.Input }
	// Render has a capability driver put a question, or answer it. Diagnostics say why the
	// last answer was refused.
	Render struct {
		Task        *input.Task
		Question    *run.Question
		Route       decision.Route
		Diagnostics []driver.Diagnostic
	}
	// ToPage gives the question a link, so that a person can answer it on its page. With follows then,
	// and Without if there is no page.
	ToPage struct {
		Question      run.Question
		With, Without Action
	}
	// Read has a capability driver read what the agent submitted, or show it the input.
	// Sent is what was submitted, where it is read from another form.
	Read struct {
		Task  *input.Task
		Input driver.Input
		Route decision.Route
		Sent  json.RawMessage
	}
	// Preview has a driver say what it would do.
	Preview struct {
		Task  *input.Task
		Input driver.Input
		Route decision.Route
	}
	// Judge has the challenge driver judge what was obtained.
	Judge struct{}
	// Gate looks up which of the inputs that the challenge driver asks for a person declined
	// before: an approval is asked for in front of them.
	Gate struct{ Result driver.AdvanceResult }
	// Recall asks the driver whose call is open what came of it.
	Recall struct{}
	// Accept proves the step.
	Accept struct {
		Task          *input.Task
		Judge         run.DriverRef
		Proof, Output json.RawMessage
		Evidence      driver.Answer
	}
	// Ask sends the question that is recorded to the client.
	Ask struct {
		Question run.Question
		Route    decision.Route
	}
)

// Lookup is what the rules cannot know by themselves.
type Lookup int

// What is looked up.
const (
	TheTask  Lookup = iota // what the open step demands
	TheOffer               // what drivers could do in the run
)

func (Apply) isAction()        {}
func (Look) isAction()         {}
func (Remember) isAction()     {}
func (KeepAccepted) isAction() {}
func (Renew) isAction()        {}
func (Omit) isAction()         {}
func (Show) isAction()         {}
func (Reply) isAction()        {}
func (Wait) isAction()         {}
func (Halt) isAction()         {}
func (Need) isAction()         {}
func (Obtain) isAction()       {}
func (Render) isAction()       {}
func (ToPage) isAction()       {}
func (Read) isAction()         {}
func (Preview) isAction()      {}
func (Judge) isAction()        {}
func (Gate) isAction()         {}
func (Recall) isAction()       {}
func (Accept) isAction()       {}
func (Ask) isAction()          {}

// Refuse counts a submission that nobody judged: wrong hash, type or form.
func Refuse(code fault.Code, why string) Apply {
	return Apply{
		Events: []run.Event{{Kind: run.Refused, Code: string(code), Reason: plain.Clip(why, 2000)}},
		Then:   Show{&Failure{Code: code, Why: why}},
	}
}

// Reject counts evidence that its driver refused. Via is the challenge driver if it
// observed the evidence itself, or empty.
func Reject(via string, code fault.Code, why string) Apply {
	why = plain.Clip(why, 2000)
	refused := []driver.Diagnostic{driver.Problem("", fmt.Sprintf("%s: %s", code, why))}
	return Apply{
		Events: []run.Event{{Kind: run.Rejected, Via: via, Code: string(code), Reason: why, Diagnostics: refused}},
		Then:   Show{&Failure{Code: code, Why: why}},
	}
}

// Decline records a person's decline. It proves nothing and advances nothing.
func Decline(s *State, in driver.Input, via, reason string, seq int64) Action {
	reason = plain.Clip(reason, 500)
	return remembered(s, in, via, Apply{
		Events: []run.Event{
			{Kind: run.Declined, Input: in.ID, Via: via, Reason: reason, Seq: seq},
			{Kind: run.Refused, Code: string(fault.UserDeclined), Reason: reason},
		},
		Then: Show{&Failure{Code: fault.UserDeclined, Why: declinedText(reason)}},
	})
}

// remembered keeps first, beyond this run, that a person declined what was to be approved.
func remembered(s *State, in driver.Input, via string, then Action) Action {
	desc, _, _ := s.Drivers.Describe(via)
	if !input.Of(in.Kind).Approves || !desc.Has(driver.FeatureHuman) {
		return then
	}
	action, err := ActionToApprove(s)
	if err != nil {
		return Halt{Fault: Unavailable("what was declined at step %d cannot be remembered: %v", s.Run.Step.Index, err)}
	}
	return Remember{declines.Decline{
		Principal: s.Run.Principal, Space: s.Run.Space, Action: action, Run: s.Run.ID, Step: s.Run.Step.Index,
		Label: OpenStep(s).Heading(), Title: s.Chain.Title, Via: via,
	}, then}
}

// declinedText says that a person declined.
func declinedText(why string) string {
	return "The person declined (" + why + "). Nothing is recorded as proof. Their decision stands until they change it in the way they were asked, or the operator takes it back."
}

// PassOver leaves a route that is not meant for the input as it is now. It was
// not tried, so nothing follows from it.
func PassOver(s *State, inputID string, r decision.Route, why string) Apply {
	a := attemptAt(s, inputID, r, decision.Unavailable, why)
	a.Untried = true
	return left(a, why, 0)
}

// Close is done with a route that gave no answer; the tree may want the call to end.
func Close(s *State, inputID string, r decision.Route, o decision.Outcome, why string, seq int64) Apply {
	a := attemptAt(s, inputID, r, o, why)
	closed := left(a, why, seq)
	closed.Then = Look(func(s *State) Action {
		if Reaction(s, a) == decision.Stop {
			return Halt{Fault: Stopped(s, a)}
		}
		return nil
	})
	return closed
}

func left(a run.Attempt, why string, seq int64) Apply {
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: why, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return Apply{Events: []run.Event{ev}}
}

// LeaveOffer closes the question what drivers may do without a grant. It is not asked
// again in this run.
func LeaveOffer(s *State, q run.Question, why string) Apply {
	return left(attemptAt(s, q.Input.ID, RouteOf(s, q), decision.Declined, why), why, q.Seq)
}

// settle ends the open call, if there is one, with an outcome that is not recorded in
// another way.
func settle(s *State, outcome string) []run.Event {
	c := s.Run.Step.Call
	if c == nil {
		return nil
	}
	return []run.Event{{Kind: run.Settled, Input: c.Input, Via: c.Driver, Reason: outcome}}
}

// claimOf records the submission as a claim: nobody judges it, and it is not counted. The
// same claim again is not recorded again.
func claimOf(s *State) Apply {
	if s.Run.Step.Claim == s.Solution.Payload {
		return Apply{}
	}
	ev := run.Event{Kind: run.Claimed, Input: input.EvidenceKind.Name, Digest: s.Solution.Payload}
	if said := s.Solution.Work(); len(said) <= maxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: said, Provenance: driver.AgentReported}
	}
	return Apply{Events: []run.Event{ev}}
}
