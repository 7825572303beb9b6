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
	Made
	Input  driver.Input // as it was asked for
	Result driver.RenderResult
	Link   *run.ApprovalLink
}

// Rendered sends the question that a driver made, or takes what it answered without one.
func Rendered(s *State, a Render, made Rendering) Action {
	k, q, r, res := a.Task, *a.Question, a.Route, made.Result
	if made.Err == nil {
		q.How, made.Err = wayOf(s, a, res)
	}
	a.Question = &q
	again := func(s *State, m Made) Action {
		made.Made = m
		return Rendered(s, a, made)
	}
	if a := made.unfinished(s, Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}, again); a != nil {
		return a
	}
	in, approves := q.Input, input.Of(q.Input.Kind).Approves
	if why := unusable(s, k, in, r, res); made.Call.Acts && why != "" {
		// It has acted. Another call would act again, under the same approval.
		return Unsettle(s, "what it returned cannot be used: "+why, made.Recovering)
	}
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
		return Supplied(s, Read{Task: k, Input: in, Route: r}, q.How, *res.Answer)
	case res.Unavailable != nil:
		return Close(s, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Close(s, in.ID, r, decision.Errored, "driver gave no outcome the host can use", 0)
}

// unusable says why what a driver obtained itself is not an answer; empty: it is one, or none.
func unusable(s *State, k *input.Task, in driver.Input, r decision.Route, res driver.RenderResult) string {
	switch {
	case res.Invalid != nil:
		return input.Describe(res.Invalid.Diagnostics)
	case res.Answer == nil:
		return ""
	}
	a := *res.Answer
	a.InputID, a.Via = in.ID, r.Via
	if why := doubtOf(s, in, a, r.Via); why != "" {
		return why
	}
	to, err := settlement(s, k, in, PhraseIn(k, in), false, a)
	if err != nil {
		return err.Error()
	}
	return to.Unusable
}

// wayOf is the way in which a driver answers an approval, which must be one that counts; empty for
// what asks nobody.
func wayOf(s *State, a Render, res driver.RenderResult) (string, error) {
	in, asks := a.Question.Input, res.ClientRequest != nil || res.Answer != nil || res.ClientReview != nil || res.Elsewhere != nil
	if !asks || !input.Of(in.Kind).Approves {
		return "", nil
	}
	desc, _, _ := s.Drivers.Describe(a.Route.Via)
	return desc.Answers(HowIn(s, a.Task, in, a.Route.Via), res)
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
	q.Digest, q.Client, q.Asker = s.Run.Step.Digest, s.Caller.Client, Asker(s)
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
func answeredElsewhere(s *State, k *input.Task, in driver.Input, r decision.Route) bool {
	q := s.Run.Step.Question
	return linkHolds(s, q) && !q.Beside() && outdated(s, k, *q) == "" && q.Elsewhere != "" && q.Input.ID == in.ID && q.Via == r.Via && HasPage(s)
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
