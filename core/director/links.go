package director

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// links are the links of approvals to their page.
type links struct{ t *turn }

// visit is how the caller reached the page, now.
func (li *links) visit() run.Visit {
	v := li.t.caller.Visit
	v.At = li.t.Now()
	return v
}

// valuesIn are the values that were put into the step's challenge.
func (li *links) valuesIn(step protocol.Step) []ApprovalValue {
	var values []ApprovalValue
	seen := map[string]bool{}
	refs := protocol.References(step.Challenge)
	for i, v := range runs.Scope(li.t.Run, li.t.Chain).Values(refs) {
		text := refs[i].Text
		if v == nil || seen[text] {
			continue
		}
		seen[text] = true
		values = append(values, ApprovalValue{Template: text, Value: plain.Clip(api.Readable(v), 4000)})
	}
	return values
}

// linkFor is the link of an approval that is about to be asked: that of the
// same question, if it is out already, else a new one; nil: there is no page.
func (li *links) linkFor(in driver.Input) *run.ApprovalLink {
	if !input.Of(in.Kind).Approves || !li.served() {
		return nil
	}
	if q := li.t.Run.Step.Question; li.current(q) && q.Input.ID == in.ID {
		return q.Link
	}
	mark := make([]byte, 16)
	_, _ = rand.Read(mark) // never fails
	return &run.ApprovalLink{Number: li.t.Run.Seq + 1, Mark: hex.EncodeToString(mark), ExpiresAt: li.t.e.opt.Clock.Now().Add(li.t.e.opt.ApprovalTTL)}
}

// current: the question is about what the step needs now, and its link not too old.
func (li *links) current(q *run.Question) bool {
	return q != nil && q.Link != nil && li.t.trust.barred(q.Input, q.Via) == "" && q.Digest == li.t.Run.Step.Digest && li.t.e.opt.Clock.Now().Before(q.Link.ExpiresAt)
}

// linkHolds: whoever has the link of the question may answer it.
func (li *links) linkHolds(q *run.Question) bool { return li.current(q) && !q.Link.ReadOnly }

// served reports whether there is a page that links lead to.
func (li *links) served() bool { return li.marked(&run.ApprovalLink{Mark: "mark"}) != "" }

// answerable reports whether a link may be given to somebody who answers with it. Where the answer is the
// step's evidence and the step does not count what a link's holder says, or where a person declined
// the same, none is.
func (li *links) answerable(k input.Task) bool {
	return li.served() && li.t.remembered.byLink() && li.t.vouching.countsAsAnswer(k, li.t.approvals.gatedInput(), driver.LinkHolder)
}

// marked is the address of a link with its mark instead of the secret, or empty.
func (li *links) marked(l *run.ApprovalLink) string {
	if l == nil || li.t.e.opt.ApprovalURL == nil {
		return ""
	}
	return li.t.e.opt.ApprovalURL(li.t.Run.ID, l.Mark)
}

// linkTo is the address of a link, or empty.
func (li *links) linkTo(l *run.ApprovalLink) (string, error) {
	return li.reveal(l, li.marked(l))
}

// readMark is the mark of the link that takes no answer.
func readMark(l *run.ApprovalLink) string { return l.Mark + "-read" }

// whereToRead says where a person reads the whole of what a form shows in part.
func (li *links) whereToRead(l *run.ApprovalLink) string {
	if l == nil {
		return fmt.Sprintf("`kairos runs show %s --json`, on the server's machine", li.t.Run.ID)
	}
	return li.t.e.opt.ApprovalURL(li.t.Run.ID, readMark(l)) + " (that page takes no answer)"
}

// secrets are the marks of a link, each followed by its secret; the mark that begins with
// another comes first.
func (li *links) secrets(l *run.ApprovalLink) (marksAndSecrets []string, err error) {
	read, err := li.t.e.links.secretOf(li.t.Run.ID, l.Number, toRead)
	if err != nil {
		return nil, err
	}
	answer, err := li.t.e.links.secretOf(li.t.Run.ID, l.Number, toAnswer)
	return []string{readMark(l), read, l.Mark, answer}, err
}

// reveal puts the secrets of the link where its marks stand.
func (li *links) reveal(l *run.ApprovalLink, text string) (string, error) {
	if l == nil || !strings.Contains(text, l.Mark) {
		return text, nil
	}
	pairs, err := li.secrets(l)
	return strings.NewReplacer(pairs...).Replace(text), err
}

// conceal puts the marks of the link where its secrets stand.
func (li *links) conceal(l *run.ApprovalLink, text string) (string, error) {
	if l == nil {
		return text, nil
	}
	pairs, err := li.secrets(l)
	slices.Reverse(pairs)
	return strings.NewReplacer(pairs...).Replace(text), err
}

// revealReply puts the secret of the open question's link into a reply.
func (li *links) revealReply(r *api.StepReply) (err error) {
	q := li.t.Run.Step.Question
	if q == nil {
		return nil
	}
	for _, text := range []*string{&r.ApprovalURL, &r.Message, &r.NextAction} {
		if *text, err = li.reveal(q.Link, *text); err != nil {
			return err
		}
	}
	return nil
}

// kept is the link that the question keeps. A link that was not given out is dropped: its
// mark is not in the request.
func (li *links) kept(l *run.ApprovalLink, concealed string) *run.ApprovalLink {
	old := li.t.Run.Step.Question
	switch {
	case l == nil:
		return nil
	case li.linkHolds(old) && old.Link.Number == l.Number:
		return old.Link
	case !strings.Contains(concealed, l.Mark):
		return nil
	}
	given := *l
	given.ReadOnly = !strings.Contains(strings.ReplaceAll(concealed, readMark(l), ""), l.Mark)
	return &given
}
