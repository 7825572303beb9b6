package plan

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
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
	// Apply records events and what they mean for the call.
	Apply struct {
		Events []run.Event
		// Fail is reported beside the open step: the submission is used up, and nobody is
		// asked in this call any more.
		Fail *Failure
		// Closes is the attempt that the event is about; the tree may want the call to end.
		Closes *run.Attempt
		// Remember is an input that a person declined, beyond this run, through Via.
		Remember *driver.Input
		Via      string
		// Note is what the reply says besides.
		Note string
		// Used: the submission is dealt with. Reissue: its nonce, too.
		Used, Reissue bool
		// MoreDue: the nonce is dealt with if the step needs another input now.
		MoreDue bool
		// Settles is the input that Answer answers; what follows depends on what is recorded.
		// Allows is the question whose answer allows drivers to act.
		Settles *driver.Input
		Answer  driver.Answer
		Allows  *run.Question
		// Ends is the outcome of the call that is open; empty leaves it open.
		Ends string
		// OfferOver: this call has nothing to offer any more.
		OfferOver bool
		// KeepWalk: the walk through the tree belongs to what happens next.
		KeepWalk bool
	}
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
	// Halt ends the call without counting anything. Allowable: the reply says as well what
	// would let a driver do the step.
	Halt struct {
		Fault     *fault.Error
		Allowable bool
		// Settles is the outcome of the call that is open; empty leaves it open.
		Settles string
	}
	// Show shows the open step, whatever is due at it, and asks nobody.
	Show struct{}
	// Need looks up what the rules want to know.
	Need struct{ Lookup Lookup }
	// Obtain obtains an input of the step by its next route.
	Obtain struct {
		Task  *input.Task
		Input driver.Input
	}
	// Call calls a driver.
	Call struct {
		Kind CallKind
		Task *input.Task
		// Input and Route are of a capability driver.
		Input driver.Input
		Route decision.Route
		// Question is what is asked with it, and Diagnostics why its last answer was refused.
		Question    *run.Question
		Diagnostics []driver.Diagnostic
	}
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

// CallKind is what a driver is called for.
type CallKind int

// The calls.
const (
	Again   CallKind = iota // of the driver whose call is open
	Render                  // to put a question, or answer it
	Read                    // to read what the agent submitted, or to show it the input
	Preview                 // to say what it would do
	Judge                   // to judge what was obtained
)

func (Apply) isAction()  {}
func (Reply) isAction()  {}
func (Wait) isAction()   {}
func (Halt) isAction()   {}
func (Show) isAction()   {}
func (Need) isAction()   {}
func (Obtain) isAction() {}
func (Call) isAction()   {}
func (Accept) isAction() {}
func (Ask) isAction()    {}

// Refuse counts a submission that nobody judged: wrong hash, type or form.
func Refuse(code fault.Code, why string) Apply {
	return Apply{
		Events: []run.Event{{Kind: run.Refused, Code: string(code), Reason: plain.Clip(why, 2000)}},
		Fail:   &Failure{Code: code, Why: why},
	}
}

// Reject counts evidence that its driver refused. Via is the challenge driver if it
// observed the evidence itself, or empty.
func Reject(via string, code fault.Code, why string) Apply {
	why = plain.Clip(why, 2000)
	refused := []driver.Diagnostic{driver.Problem("", fmt.Sprintf("%s: %s", code, why))}
	return Apply{
		Events: []run.Event{{Kind: run.Rejected, Via: via, Code: string(code), Reason: why, Diagnostics: refused}},
		Fail:   &Failure{Code: code, Why: why},
	}
}

// Decline records a person's decline. It proves nothing and advances nothing.
func Decline(in driver.Input, via, reason string, seq int64) Apply {
	reason = plain.Clip(reason, 500)
	return Apply{
		Events: []run.Event{
			{Kind: run.Declined, Input: in.ID, Via: via, Reason: reason, Seq: seq},
			{Kind: run.Refused, Code: string(fault.UserDeclined), Reason: reason},
		},
		Fail: &Failure{Code: fault.UserDeclined, Why: declinedText(reason)}, Remember: &in, Via: via,
	}
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
	return leave(a, why, 0)
}

// Close is done with a route that gave no answer; the tree may want the call to end.
func Close(s *State, inputID string, r decision.Route, o decision.Outcome, why string, seq int64) Apply {
	a := attemptAt(s, inputID, r, o, why)
	closed := leave(a, why, seq)
	closed.Closes = &a
	return closed
}

func leave(a run.Attempt, why string, seq int64) Apply {
	ev := run.Event{Kind: run.RouteClosed, Seq: seq, Reason: why, Attempt: &a}
	if a.Outcome == string(decision.Invalid) {
		ev.Diagnostics = []driver.Diagnostic{driver.Problem("", a.Reason)}
	}
	return Apply{Events: []run.Event{ev}}
}

// LeaveOffer closes the question what drivers may do without a grant. It is not asked
// again in this run.
func LeaveOffer(s *State, q run.Question, why string) Apply {
	left := leave(attemptAt(s, q.Input.ID, RouteOf(s, q), decision.Declined, why), why, q.Seq)
	left.OfferOver = true
	return left
}

// claimOf records the submission as a claim: nobody judges it, and it is not counted. The
// same claim again is not recorded again.
func claimOf(s *State) Apply {
	if s.Run.Step.Claim == s.Solution.Payload {
		return Apply{}
	}
	ev := run.Event{Kind: run.Claimed, Input: input.EvidenceKind.Name, Digest: s.Solution.Payload}
	if said := OrRaw(s.Solution.Params, s.Solution.Evidence); len(said) <= maxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: said, Provenance: driver.AgentReported}
	}
	return Apply{Events: []run.Event{ev}}
}
