package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// CurrentLink reports whether the question is about what the step needs now, and its link is not too old.
func CurrentLink(s *State, q *run.Question) bool {
	return q != nil && q.Link != nil && Barred(s, q.Input, q.Via) == "" && q.Digest == s.Run.Step.Digest && s.Now.Before(q.Link.ExpiresAt)
}

// linkHolds: whoever has the link of the question may answer it.
func linkHolds(s *State, q *run.Question) bool { return CurrentLink(s, q) && !q.Link.ReadOnly }

// HasPage reports whether there is a page that links lead to. It opens none.
func HasPage(s *State) bool {
	if s.Options.HasPage != nil {
		return s.Options.HasPage()
	}
	return s.Options.ApprovalURL != nil && s.Options.ApprovalURL(s.Run.ID, "secret") != ""
}

// Answerable reports whether a link may be given to somebody who answers with it. Where the answer is the
// step's evidence and the step does not count what is said on the page, where the page does not
// count, or where a person declined the same, none is.
func Answerable(s *State, k *input.Task) bool {
	return HasPage(s) && slices.Contains(k.Approval.How, driver.ByPage) && pageMayApprove(s, k) && countsAsAnswer(s, k, GatedInput(s), wordOfPage(k))
}

// MarkedURL is the mark of the address of a link, or empty.
func MarkedURL(s *State, l *run.ApprovalLink) string {
	if l == nil || !HasPage(s) {
		return ""
	}
	return run.AddressMark(l.Mark)
}

// WhereToRead says where a person reads the whole of what a form shows in part.
func WhereToRead(s *State, l *run.ApprovalLink) string {
	if l == nil {
		return fmt.Sprintf("`kairos runs show %s -o json`, on the server's machine", s.Run.ID)
	}
	return run.AddressMark(l.ReadMark()) + " (that page takes no answer)"
}

// keptLink is the link that the question keeps. A link that was not given out is dropped: its
// mark is not in the request.
func keptLink(s *State, l *run.ApprovalLink, concealed string) *run.ApprovalLink {
	old := s.Run.Step.Question
	switch {
	case l == nil:
		return nil
	case linkHolds(s, old) && old.Link.Number == l.Number:
		return old.Link
	case s.Run.Step.Link != nil && s.Run.Step.Link.Number == l.Number:
		return s.Run.Step.Link
	case !strings.Contains(concealed, l.Mark):
		return nil
	}
	given := *l
	given.ReadOnly = !strings.Contains(strings.ReplaceAll(concealed, l.ReadMark(), ""), l.Mark)
	return &given
}

// ApprovedByLink approves what the question asks for, from its page. By names whoever is
// identified there; empty: nobody is. A caller that waits with the old nonce is shown the
// step again, now approved. Where several people have to approve, the question stays open until
// they have.
func ApprovedByLink(s *State, k *input.Task, q run.Question, by string, v run.Visit) Apply {
	var votes []run.Vote
	if k.Approval.Part.Login {
		by = s.Caller.Principal // else nobody may answer
		own := voteOf(s, k, q, v)
		votes = append(Votes(s, k), own)
		if missing := k.Approval.Missing(votes); missing != "" {
			return Apply{Events: []run.Event{{Kind: run.PartlyApproved, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Vote: &own, Reason: missing}}}
		}
	}
	a := NewApproval(s, decision.Route{Index: q.Route, Via: q.Via}, driver.LinkHolder, run.BasisLink)
	a.Visits = append(slices.Clone(q.Link.Opened), v)
	a.Digest, a.Questions = q.Digest, append(slices.Clone(q.Earlier), q.Seq)
	a.AskedFor(q.Phrase)
	if by != "" {
		a.Basis, a.By, a.Name, a.Provenance = run.BasisPage, by, nameOf(s), driver.ClientAttested
	}
	for _, vote := range votes { // it is as old as the first of them
		if a.Votes = votes; vote.ExpiresAt.Before(a.ExpiresAt) {
			a.ExpiresAt = vote.ExpiresAt
		}
	}
	return Apply{Events: []run.Event{{Kind: run.Answered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Approval: a}}, Then: Renew{}}
}

// RejectedByLink declines what the question asks for, from its page. By names whoever is
// identified there; empty: nobody is.
func RejectedByLink(s *State, q run.Question, by string) Action {
	const why = "rejected on the approval page"
	return remembered(s, q.Input, q.Via, Apply{Events: []run.Event{
		{Kind: run.Declined, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Reason: why, Apart: true, By: by, Name: nameOf(s)},
		{Kind: run.Refused, Code: string(fault.UserDeclined), Reason: why},
	}})
}
