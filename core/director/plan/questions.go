package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Rendering is what a capability driver made of an input. The request and the message
// show the marks of the link instead of its secrets.
type Rendering struct {
	Call       run.Call
	Recovering bool
	Result     driver.RenderResult
	Err        error
	Link       *run.ApprovalLink
}

// Rendered sends the question that a driver made, or takes what it answered without one.
func Rendered(s *State, a Render, made Rendering) Action {
	k, q, r, res := a.Task, *a.Question, a.Route, made.Result
	l := Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}
	if made.Err == nil {
		made.Err = Breach(s, made.Call, made.Recovering, l)
	}
	if made.Call.Acts && notCalled(made.Err) && !made.Recovering {
		again := made
		again.Call.Acts = false
		return Apply{Events: settle(s, neverCalled(made.Err)), Then: Look(func(s *State) Action { return Rendered(s, a, again) })}
	}
	if a := withoutOutcome(s, made.Call, made.Recovering, l, made.Err); a != nil {
		return a
	}
	in, approves := q.Input, input.Of(q.Input.Kind).Approves
	switch {
	case (made.Err != nil || res.Unavailable != nil) && shortPossible(s, q):
		return askShort(s, k, q, r)
	case made.Err != nil && s.Run.Step.Call != nil:
		// The wait continues: another route must not get around it.
		return Halt{Fault: fault.Wrap(made.Err, fault.DriverUnavailable, "driver %s, which step %d waits for, failed and will be asked again: %s",
			r.Via, s.Run.Step.Index, plain.Clip(made.Err.Error(), 600))}
	case made.Err != nil:
		return Close(s, in.ID, r, decision.Errored, made.Err.Error(), 0)
	case res.Pending != nil:
		return deferred(s, made.Call, *res.Pending, s.Run.Step.State)
	case res.ClientRequest != nil:
		return send(s, a, made.Link, *res.ClientRequest)
	case res.Invalid != nil:
		return AskAgainBetter(s, k, q, r, res.Invalid.Diagnostics)
	case res.ClientReview != nil && approves:
		return leaveToReview(s, r)
	case res.Elsewhere != nil && approves:
		return leaveToPage(s, a, made.Link, *res.Elsewhere)
	case res.Answer != nil:
		return Supplied(s, k, in, r, *res.Answer)
	case res.Unavailable != nil:
		return Close(s, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Close(s, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// Sends reports whether the action puts a question to the client.
func Sends(a Action) bool {
	recorded, ok := a.(Apply)
	_, asks := recorded.Then.(Ask)
	return ok && asks
}

// send puts the driver's request to the client, if this client takes it and this call may
// ask. A driver sends only what its pinned descriptor lists, and a client is sent only what
// it declared.
func send(s *State, a Render, link *run.ApprovalLink, req driver.ClientRequest) Action {
	q, r := *a.Question, a.Route
	desc, _, _ := s.Drivers.Describe(r.Via)
	needs, err := desc.Demands(req)
	if err != nil {
		return Close(s, q.Input.ID, r, decision.Errored, err.Error(), 0)
	}
	for _, pointer := range needs {
		if !s.Caller.Client.Declares(pointer) {
			return Close(s, q.Input.ID, r, decision.Unavailable, fmt.Sprintf("the client did not declare %s, which %s needs", pointer, req.Method), 0)
		}
	}
	if SentToAddress(req) && input.Of(q.Input.Kind).Approves && !Answerable(s, a.Task) {
		return Close(s, q.Input.ID, r, decision.Unavailable, "the client shows no forms, and there is no link for an answer that counts", 0)
	}
	if q.Seq == 0 && !MayAsk(s, a.Task, q.Input, desc) {
		return Apply{Events: settle(s, "a question to the client, which this call may not ask"), Then: Reply{DrivenReply(s, a.Task, q.Input)}}
	}
	kind, seq := run.Asked, q.Seq
	if seq != 0 {
		kind = run.Repaired
	}
	q.Needs, q.Link, q.Ask, q.Elsewhere = needs, keptLink(s, link, string(req.Params)), req, ""
	ev := put(s, &q, run.Event{Kind: kind, Seq: seq, Diagnostics: a.Diagnostics})
	return Apply{Events: []run.Event{ev}, Then: Ask{q, r}}
}

// put is the event that records a question under a number of its own. The event's number is
// that of the question in whose place it comes, if any.
func put(s *State, q *run.Question, ev run.Event) run.Event {
	q.Unheard, q.Note = len(s.Solved), s.Note
	if old := s.Run.Step.Question; old != nil {
		q.Unheard = max(q.Unheard, old.Unheard)
	}
	q.Seq, q.Since = s.Run.Seq+1, s.Started
	q.Digest, q.Client = s.Run.Step.Digest, s.Caller.Client
	q.AskedAt, q.Driver = At(s), Ref(s, q.Via)
	ev.Question, ev.Input, ev.Via = q, q.Input.ID, q.Via
	return ev
}

// leaveToReview records that the client's own review of the evidence request is the approval.
func leaveToReview(s *State, r decision.Route) Action {
	desc, _, _ := s.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureClientReview) {
		return Close(s, input.ApprovalKind.Name, r, decision.Errored, "claims a client review without the feature "+driver.FeatureClientReview, 0)
	}
	// Nobody vouches for anything yet: the client has still to see the request.
	return Apply{Events: []run.Event{{Kind: run.Supplied, Input: input.ApprovalKind.Name, Via: r.Via, Approval: NewApproval(s, r, "", run.BasisReview)}}}
}

// leaveToPage records that a person answers at the link, and gives the link to the agent.
func leaveToPage(s *State, a Render, link *run.ApprovalLink, e driver.Elsewhere) Action {
	q, r := *a.Question, a.Route
	desc, _, _ := s.Drivers.Describe(r.Via)
	if !desc.Has(driver.FeatureHuman) || link == nil || !Answerable(s, a.Task) {
		return Close(s, q.Input.ID, r, decision.Errored, "leaves the answer to a page without a person or a link", 0)
	}
	q.Link, q.Elsewhere = link, cmp.Or(plain.Clip(e.Message, 1000), "A person has to approve this. Show them the link.")
	return Apply{Events: []run.Event{put(s, &q, run.Event{Kind: run.Asked})}, Then: Wait{Task: a.Task, Question: &q}}
}

// shortPossible reports whether the client may take a short form where it failed at this question.
func shortPossible(s *State, q run.Question) bool {
	return input.Of(q.Input.Kind).Approves && q.Human && !q.Short && s.Caller.Client.ElicitationForm &&
		!SentToAddress(q.Ask) && input.MayBeTooLong(q.Input) && s.Run.Step.Call == nil
}

// askShort asks for an approval once more with a short form, after a client failed at the whole:
// what is to be approved must not lead away from the person by its length.
func askShort(s *State, k *input.Task, q run.Question, r decision.Route) Action {
	q.Short = true
	short := askedFor(s, k, GatedInput(s))
	short.Short = true
	q.Input = input.Approval(k, short)
	return Render{Task: k, Question: &q, Route: r}
}

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
	case in.Err == nil && res.Dismissed != nil && q.Human && !optional:
		return dismissed(s, k, q, res.Dismissed.Reason)
	case optional && res.Answer == nil && in.ClientError == nil:
		return LeaveOffer(s, q, "the person did not answer with yes")
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

// openedPage: the person was sent to the page, so their answer comes from there.
func openedPage(s *State, k *input.Task, q run.Question) Action {
	asked := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), asked)
	q.Elsewhere = "The person was sent to the approval page and has not answered there yet. If they have lost it, show them the link."
	q.Ask = driver.ClientRequest{}
	return Apply{Events: []run.Event{put(s, &q, run.Event{Kind: run.Repaired, Seq: asked})}, Then: Wait{Task: k, Question: &q, Meanwhile: true}}
}

// dismissed records that the person closed the question without an answer. The
// question stays open, nothing is counted, and no other route is taken: nobody
// else may answer for them.
func dismissed(s *State, k *input.Task, q run.Question, reason string) Action {
	closed := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), closed)
	q.Dismissed++
	q.Closed = s.Now
	return Apply{Events: []run.Event{put(s, &q, run.Event{Kind: run.Dismissed, Seq: closed, Reason: plain.Clip(reason, 500)})}, Then: Wait{Task: k, Question: &q}}
}

// MethodElicitation is the request that asks a person.
const MethodElicitation = "elicitation/create"

// ByURL reports whether a request asks the client to have a person open an
// address, and the id of that elicitation.
func ByURL(method string, params json.RawMessage) (id string, byURL bool) {
	var p struct {
		Mode string `json:"mode"`
		ID   string `json:"elicitationId"`
	}
	if method != MethodElicitation || json.Unmarshal(params, &p) != nil || p.Mode != "url" {
		return "", false
	}
	return p.ID, true
}

// SentToAddress reports whether the request has a person open an address.
func SentToAddress(req driver.ClientRequest) bool {
	_, byURL := ByURL(req.Method, req.Params)
	return byURL
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

// Submitted takes what the agent submitted as its driver reads it.
func Submitted(s *State, a Read, shown driver.AgentChallenge, in Reading) Action {
	res, via := in.Result, a.Route.Via
	switch {
	case in.Err != nil:
		return Halt{Fault: fault.Wrap(in.Err, fault.DriverUnavailable, "driver %s could not read the solution, the step stays open: %s", via, plain.Clip(in.Err.Error(), 600))}
	case res.Answer != nil:
		// This came from the agent, even if the driver claims more.
		res.Answer.Provenance = driver.AgentReported
		return Supplied(s, a.Task, a.Input, a.Route, *res.Answer)
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

// leftAlone reports whether the person closed the question so often that nobody
// shows it to them for now.
func leftAlone(s *State, q run.Question) bool {
	return q.Dismissed >= maxDismissals && s.Now.Before(q.Closed.Add(dismissalPause)) && !setBack(s, q.Closed)
}

// dismissal is what a reply says of a closed question, and the action that
// follows from it.
func dismissal(s *State, q run.Question, action string) (said, next string) {
	said = "The person dismissed the question without an answer. Nothing is decided"
	if !leftAlone(s, q) {
		return said, action + "; the person is then asked again, so do it when they want to answer"
	}
	until := q.Closed.Add(dismissalPause).UTC().Format(time.RFC3339)
	said = fmt.Sprintf("The person dismissed the question %d times in a row without an answer. Nothing is decided, and they are not asked again before %s", q.Dismissed, until)
	return said, action + "; do it only once the person says that they want to answer, and after " + until
}

// GivenUp reports whether nobody is asked the question again, because it went
// out often enough. A person's question is never given up, and none is where
// the tree says so.
func GivenUp(s *State, q run.Question) bool {
	return !q.Human && q.Asked+q.Unanswered >= MaxUnanswered && s.Tree.On(RouteOf(s, q), decision.Abandoned).Kind != decision.Again
}

// answeredElsewhere reports whether the open question is this one and waits for
// a person at its link, so that nobody is asked anew.
func answeredElsewhere(s *State, in driver.Input, r decision.Route) bool {
	q := s.Run.Step.Question
	return linkHolds(s, q) && q.Elsewhere != "" && q.Input.ID == in.ID && q.Via == r.Via && HasPage(s)
}

// MayAsk reports whether a person or a model may be asked now. Nobody is asked when
// nobody waits, about a second input in one call, or before the work is done, unless the
// step brings its own prompt for a model. Permission for drivers is asked for right behind the
// run's input. A judge comes when the work is done; if a driver judges without the client,
// render finds out. Files are looked at right behind the evidence: that disturbs nobody.
func MayAsk(s *State, k *input.Task, in driver.Input, desc driver.Descriptor) bool {
	if input.Of(in.Kind).Quiet && !desc.Has(driver.FeatureHuman) {
		return !s.Caller.Detached
	}
	second := s.Asked != Subject{} && s.Asked != Subject{s.Run.Step.Index, in.ID}
	if s.Caller.Detached || second && !input.Of(in.Kind).Optional {
		return false
	}
	return k.Where.Index == s.Target || k.Common.Sampling != nil || input.Of(in.Kind).OfRun || input.Of(in.Kind).Judges
}

// A person who closes a dialog has decided nothing. They are asked again by the
// next call; after maxDismissals in a row they are left alone for
// dismissalPause, so that an agent that keeps calling does not keep asking.
const (
	maxDismissals  = 3
	dismissalPause = time.Minute
)

// MaxUnanswered is how often a question goes out that gets no answer.
const MaxUnanswered = 2

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
