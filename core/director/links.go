package director

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
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
	scope := runs.Scope(li.t.Run, li.t.Chain)
	var values []ApprovalValue
	seen := map[string]bool{}
	for _, ref := range protocol.References(step.Challenge) {
		v, ok := scope.Value(ref)
		if !ok || seen[ref.Text] {
			continue
		}
		seen[ref.Text] = true
		values = append(values, ApprovalValue{Template: ref.Text, Value: plain.Clip(api.Readable(v), 4000)})
	}
	return values
}

// linkFor is the link of an approval that is about to be asked: that of the
// same question, if it is out already, else a new one; nil: there is no page.
func (li *links) linkFor(in driver.Input) *run.ApprovalLink {
	if !input.Of(in.Kind).Approves || li.t.e.opt.ApprovalURL == nil {
		return nil
	}
	if q := li.t.Run.Step.Question; li.linkHolds(q) && q.Input.ID == in.ID {
		return q.Link
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	return &run.ApprovalLink{Secret: hex.EncodeToString(secret), ExpiresAt: li.t.e.opt.Clock.Now().Add(li.t.e.opt.ApprovalTTL)}
}

// linkHolds: the question is about what the step needs now, and its link not too old.
func (li *links) linkHolds(q *run.Question) bool {
	return q != nil && q.Link != nil && li.t.trust.barred(q.Input, q.Via) == "" && q.Digest == li.t.Run.Step.Digest && li.t.e.opt.Clock.Now().Before(q.Link.ExpiresAt)
}

// linkTo is the address of a link; empty: there is none.
func (li *links) linkTo(l *run.ApprovalLink) string {
	if l == nil || li.t.e.opt.ApprovalURL == nil {
		return ""
	}
	return li.t.e.opt.ApprovalURL(li.t.Run.ID, l.Secret)
}

// kept is the link as the question keeps it: one that nobody was given dies.
func (li *links) kept(l *run.ApprovalLink, rendered json.RawMessage) *run.ApprovalLink {
	old := li.t.Run.Step.Question
	known := li.linkHolds(old) && l != nil && old.Link.Secret == l.Secret
	if l == nil || !known && !strings.Contains(string(rendered), l.Secret) {
		return nil
	}
	return l
}
