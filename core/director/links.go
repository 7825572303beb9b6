package director

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// visit is how the caller reached the page, now.
func visit(t *turn) run.Visit {
	v := t.Caller.Visit
	v.At = t.change.Now()
	return v
}

// linkFor is the link of an approval that is about to be asked: that of the
// same question, if it is out already, else a new one; nil: there is no page.
func linkFor(t *turn, in driver.Input) *run.ApprovalLink {
	if !input.Of(in.Kind).Approves || !plan.HasPage(t.State) {
		return nil
	}
	if q := t.Run.Step.Question; plan.CurrentLink(t.State, q) && q.Input.ID == in.ID {
		return q.Link
	}
	mark := make([]byte, 16)
	_, _ = rand.Read(mark) // never fails
	return &run.ApprovalLink{Number: t.Run.Seq + 1, Mark: hex.EncodeToString(mark), ExpiresAt: t.e.opt.Clock.Now().Add(t.e.opt.ApprovalTTL)}
}

// revealReply puts the secret of the open question's link into a reply.
func revealReply(t *turn, r *api.StepReply) (err error) {
	q := t.Run.Step.Question
	if q == nil {
		return nil
	}
	for _, text := range []*string{&r.ApprovalURL, &r.Message, &r.NextAction} {
		if *text, err = t.e.secrets.Reveal(t.Run.ID, q.Link, *text); err != nil {
			return err
		}
	}
	return nil
}
