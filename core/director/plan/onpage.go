package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// onPage is the open question to the input if a person may answer it on its page, as any other way
// to the input may still be taken; nil: none is.
func onPage(s *State, inputID string) *run.Question {
	q := s.Run.Step.Question
	if !linkHolds(s, q) || q.Input.ID != inputID || input.Of(q.Input.Kind).Approves || !HasPage(s) {
		return nil
	}
	return q
}

// besides is the action, and before it the person gets the page for the input if their client answered it
// itself. Instead follows where they get it; nil: then follows.
func besides(s *State, k *input.Task, in driver.Input, then, instead Action) Action {
	r, itself := answeredItselfThrough(s, in)
	if !itself || onPage(s, in.ID) != nil || !fitsPage(s, k, in, r.Via) {
		return then
	}
	// A form that is out in another client is not called back.
	if q := s.Run.Step.Question; q != nil && q.Elsewhere == "" {
		return then
	}
	q := run.Question{Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: true, Asked: 1, Earlier: s.Run.Step.Superseded}
	if instead == nil {
		instead = then
	}
	return ToPage{Question: q, With: instead, Without: then}
}

// answeredItselfThrough is the route to the input through which a client answered it itself, now or when
// the same was asked before.
func answeredItselfThrough(s *State, in driver.Input) (r decision.Route, itself bool) {
	for _, a := range slices.Backward(s.Run.Step.Tried) {
		through := func(b run.Automatic) bool { return b.Input == in.ID && b.Via == a.Via }
		if a.Input == in.ID && (slices.ContainsFunc(s.Run.Step.Automatic, through) || AnswersItself(s, in, a.Via) != nil) {
			return decision.Route{Index: a.Route, Path: a.Path, Via: a.Via}, true
		}
	}
	return r, false
}

// fitsPage reports whether a person may answer the input on the page, and the answer counts.
func fitsPage(s *State, k *input.Task, in driver.Input, via string) bool {
	kind, step := input.Of(in.Kind), s.Run.Step
	_, declined := step.Declines[in.ID]
	switch {
	case kind.Reserved || kind.Internal || in.Sensitive || declined || step.Call != nil:
		return false
	case !HasPage(s) || !slices.Contains(k.Approval.How, driver.ByPage) || Barred(s, in, via) != "":
		return false
	case !step.Approved(via, run.Event{At: s.Now}) || !couldCount(s, k, via, driver.LinkHolder):
		return false
	}
	_, err := input.FieldsOf(in)
	return err == nil
}

// PutOnPage records the question with the link; nil: the page did not open.
func PutOnPage(s *State, a ToPage, link *run.ApprovalLink) Action {
	if link == nil {
		return a.Without
	}
	q := a.Question
	q.Link, q.Elsewhere = link, "A person can answer this on a page of the server: show them the link."
	return Apply{Events: []run.Event{put(s, &q, run.Event{Kind: run.Asked})}, Then: Look(func(s *State) Action {
		if w, waits := a.With.(Wait); waits {
			w.Question = s.Run.Step.Question
			return w
		}
		return a.With
	})}
}

// MayBeAnswered reports whether a call that submitted nothing may wait for a person, who has had the link
// to the page since an earlier call.
func MayBeAnswered(s *State) bool {
	q, given := s.Run.Step.Question, s.Solution
	return q != nil && q.Beside() && onPage(s, q.Input.ID) != nil && q.AskedAt.Before(s.Started) &&
		given != nil && !given.Supplied() && !s.Caller.Detached && s.Failure == nil && s.Reflex == nil
}

// AnsweredOnPage takes a person's answer from its page. By names whoever is identified there; empty:
// nobody is.
func AnsweredOnPage(s *State, q run.Question, by string, value json.RawMessage, v run.Visit) Apply {
	a := driver.Answer{InputID: q.Input.ID, Via: q.Via, Value: value, Provenance: driver.LinkHolder}
	if by != "" {
		a.Provenance = driver.ClientAttested
	}
	return Apply{
		Events: []run.Event{{Kind: run.Answered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Answer: &a, By: by, Name: nameOf(s), Visit: &v}},
		Then:   Look(renewIfDue),
	}
}

// WithPage adds to a reply the page on which a person can answer the open input besides.
func WithPage(s *State, r api.StepReply) api.StepReply {
	q := s.Run.Step.Question
	if q == nil || r.ApprovalURL != "" || onPage(s, q.Input.ID) == nil {
		return r
	}
	r.ApprovalURL = MarkedURL(s, q.Link)
	r.Message = plain.Sentences(r.Message, q.Elsewhere)
	r.NextAction += fmt.Sprintf(`; or show the person approval_url, and once they have answered there, call kairos_next with %s and solution {"type":%q,"nonce":%q}`,
		protocol.URI(OpenStep(s).UUID), typeOf(s, OpenStep(s)), s.Run.Step.Nonce)
	return r
}
