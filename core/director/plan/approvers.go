package plan

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// wordOfPage is whose word an approval on the page is.
func wordOfPage(k *input.Task) driver.Provenance {
	if k.Approval.Part.Login {
		return driver.ClientAttested
	}
	return driver.LinkHolder
}

// pageMayApprove reports whether the page may approve. After login it may also approve what was
// declined in another run, because the page says so and the person is known.
func pageMayApprove(s *State, k *input.Task) bool {
	_, no := s.Run.Step.Declines[input.ApprovalKind.Name]
	return LinkMayApprove(s) || k.Approval.Part.Login && !no
}

// voteOf is the approval of the caller, who answers the question on its page now.
func voteOf(s *State, k *input.Task, q run.Question, v run.Visit) run.Vote {
	c := s.Caller
	vote := run.Vote{
		By: c.Principal, Name: nameOf(s), As: k.Approval.As(c.Principal, c.MemberOf), Runner: RunsIt(s), Digest: q.Digest,
		At: At(s), ExpiresAt: s.Now.Add(s.Options.ApprovalTTL), Visit: v,
	}
	vote.Typed(q.Phrase)
	return vote
}

// maxName bounds the name of a person in records, in characters.
const maxName = 100

// nameOf is what people call the caller, where the operator lets records say it.
func nameOf(s *State) string {
	if !s.Options.Names {
		return ""
	}
	return plain.Clip(s.Caller.Name, maxName)
}

// RunsIt reports whether the caller owns the run, or belongs to the group that does.
func RunsIt(s *State) bool {
	return s.Caller.Principal == s.Run.Principal || slices.Contains(s.Caller.MemberOf, s.Run.Principal)
}

// Votes are the approvals that count for the open step, where several people have to approve.
func Votes(s *State, k *input.Task) []run.Vote {
	return k.Approval.Holds(s.Run.Step.Votes, s.Run.Step.Digest, s.Now)
}

// NotByCaller says why the caller may not answer the question on its page; empty: they may.
func NotByCaller(s *State, k *input.Task, q run.Question) string {
	switch {
	case !k.Approval.Part.Login || !input.Of(q.Input.Kind).Approves:
		return ""
	case s.Caller.Method != access.ByLogin:
		return k.Approval.Part.Barred
	}
	return k.Approval.Barred(voteOf(s, k, q, run.Visit{}))
}

// NotNeededOf says why another approval of the caller adds nothing; empty: it is needed.
func NotNeededOf(s *State, k *input.Task, q run.Question) string {
	if !k.Approval.Part.Login {
		return ""
	}
	return k.Approval.Helps(voteOf(s, k, q, run.Visit{}), Votes(s, k))
}

// WhoIsMissing says whose approvals the open step lacks, where people have to log in for them; empty
// where they do not.
func WhoIsMissing(s *State, k *input.Task) string {
	if k == nil || !k.Approval.Part.Login {
		return ""
	}
	return k.Approval.Missing(Votes(s, k))
}

// byThosePeople reports whether the people approved who have to. An approval that did not come from the
// page need not be of people who log in: where it must be, no other way counts.
func byThosePeople(k *input.Task, a run.Approval) bool {
	return !k.Approval.Part.Login || a.Basis.Way() != driver.ByPage || a.Basis == run.BasisPage && len(k.Approval.Lacks(a.Votes)) == 0
}
