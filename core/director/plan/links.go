package plan

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// CurrentLink reports whether the question is about what the step needs now, and its link is not too old.
func CurrentLink(s *State, q *run.Question) bool {
	return q != nil && q.Link != nil && Barred(s, q.Input, q.Via) == "" && q.Digest == s.Run.Step.Digest && s.Now.Before(q.Link.ExpiresAt)
}

// linkHolds: whoever has the link of the question may answer it.
func linkHolds(s *State, q *run.Question) bool { return CurrentLink(s, q) && !q.Link.ReadOnly }

// HasPage reports whether there is a page that links lead to.
func HasPage(s *State) bool { return MarkedURL(s, &run.ApprovalLink{Mark: "mark"}) != "" }

// Answerable reports whether a link may be given to somebody who answers with it. Where the answer is the
// step's evidence and the step does not count what a link's holder says, or where a person declined
// the same, none is.
func Answerable(s *State, k *input.Task) bool {
	return HasPage(s) && LinkMayApprove(s) && countsAsAnswer(s, k, GatedInput(s), driver.LinkHolder)
}

// MarkedURL is the address of a link with its mark instead of the secret, or empty.
func MarkedURL(s *State, l *run.ApprovalLink) string {
	if l == nil || s.Options.ApprovalURL == nil {
		return ""
	}
	return s.Options.ApprovalURL(s.Run.ID, l.Mark)
}

// WhereToRead says where a person reads the whole of what a form shows in part.
func WhereToRead(s *State, l *run.ApprovalLink) string {
	if l == nil {
		return fmt.Sprintf("`kairos runs show %s --json`, on the server's machine", s.Run.ID)
	}
	return s.Options.ApprovalURL(s.Run.ID, ReadMark(l)) + " (that page takes no answer)"
}

// KeptLink is the link that the question keeps. A link that was not given out is dropped: its
// mark is not in the request.
func KeptLink(s *State, l *run.ApprovalLink, concealed string) *run.ApprovalLink {
	old := s.Run.Step.Question
	switch {
	case l == nil:
		return nil
	case linkHolds(s, old) && old.Link.Number == l.Number:
		return old.Link
	case !strings.Contains(concealed, l.Mark):
		return nil
	}
	given := *l
	given.ReadOnly = !strings.Contains(strings.ReplaceAll(concealed, ReadMark(l), ""), l.Mark)
	return &given
}

// ReadMark is the mark of the link that takes no answer.
func ReadMark(l *run.ApprovalLink) string { return l.Mark + "-read" }
