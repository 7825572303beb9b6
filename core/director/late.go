package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// late takes replies to questions that are no longer open.
type late struct{ t *turn }

// late handles a reply to a question that is no longer open.
func (la *late) late(ctx context.Context, in Continuation, key, payload string) (Round, error) {
	la.t.Tried = "to take the client's answer to a question"
	rec, ok, err := la.t.e.store.History.Recorded(ctx, la.t.Run.ID, key)
	if err != nil {
		return Round{}, fmt.Errorf("look up a recorded reply: %w", err)
	}
	switch {
	case ok && rec.Payload == payload:
		return la.repeat(ctx, rec)
	case ok:
		return Round{}, fault.New(fault.Replayed, "this question was answered before, and differently; the first answer stands")
	case !la.t.Run.State.Live():
		return Round{}, la.t.change.Over(ctx)
	}
	if q := la.t.Run.Step.Question; q != nil && q.Human && slices.Contains(q.Earlier, in.Seq) {
		if round, done, err := la.lateDecline(ctx, *q, in); done || err != nil {
			return round, err
		}
	}
	if la.unsettled(in.Seq) {
		if round, done, err := la.lateDecline(ctx, la.questionOfPage(), in); done || err != nil {
			return round, err
		}
	}
	la.t.Note = "The question this answers was replaced by a later one."
	la.t.approvals.noteApproval()
	return la.t.replies.presentOpen(ctx)
}

// unsettled: the question was approved on its page, and the client's own copy of
// it can still be declined, as long as nothing was done.
func (la *late) unsettled(seq int64) bool {
	_, taken := plan.EvidenceOf(la.t.Run.Step)
	return !taken && la.t.Run.Step.Call == nil && plan.ApprovalGiven(la.t.State) && slices.Contains(la.t.Run.Step.Approval.Questions, seq)
}

// questionOfPage is what was approved on the page, as far as a decline is read with it.
func (la *late) questionOfPage() run.Question {
	a := la.t.Run.Step.Approval
	in := driver.Input{ID: input.ApprovalKind.Name, Kind: input.ApprovalKind.Name, Schema: input.ApprovalForm, Approval: driver.ApprovalUser, Person: true}
	return run.Question{Input: in, Via: a.Via, Route: a.Route, Client: la.t.Caller.Client, Human: true}
}

// lateDecline looks whether a person declined an older copy of the question, or to one
// that was approved on its page.
// An approval of it comes too late, but asking again must not undo a decline.
func (la *late) lateDecline(ctx context.Context, q run.Question, in Continuation) (Round, bool, error) {
	k, err := la.t.questions.askedTask(ctx, q)
	if err != nil {
		return Round{}, false, err
	}
	res, err := la.t.questions.read(ctx, k, q, in)
	if err != nil || res.Declined == nil {
		return Round{}, false, nil //nolint:nilerr // an answer that cannot be read is not a decline, and is too late
	}
	round, err := la.t.replies.decline(ctx, q.Input, q.Via, res.Declined.Reason, q.Seq)
	return round, true, err
}

// repeat repeats a recorded outcome: a reply, the question that followed, or what came of
// a driver's call that had begun.
func (la *late) repeat(ctx context.Context, rec runs.Recorded) (Round, error) {
	var next struct {
		Asks  int64 `json:"asks"`
		Begun int   `json:"begun"`
	}
	switch err := json.Unmarshal(rec.Reply, &next); {
	case err == nil && next.Begun > 0:
		return la.resumeBegun(ctx, rec, next.Begun)
	case err != nil || next.Asks == 0:
		return la.replay(rec)
	}
	if q := la.t.Run.Step.Question; q != nil && q.Seq == next.Asks {
		return la.t.questions.ask(ctx, *q, decision.Route{})
	}
	return la.t.replies.presentOpen(ctx)
}

// replay is the reply as it was recorded, with the link that is still open in it.
func (la *late) replay(rec runs.Recorded) (Round, error) {
	var r api.StepReply
	if err := json.Unmarshal(rec.Reply, &r); err != nil {
		return Round{}, fmt.Errorf("decode the reply recorded under %s: %w", rec.Key, err)
	}
	return Round{Reply: &r}, la.t.links.revealReply(&r)
}

// resumeBegun continues a call that ended without a reply after a driver began to act
// for it, as the call itself would have: it reports what is solved from that step on. Its
// reply is recorded only if it brings the run further, so that another server which still
// makes the driver's call can save what comes of it.
func (la *late) resumeBegun(ctx context.Context, rec runs.Recorded, from int) (Round, error) {
	if !la.t.Run.State.Live() {
		return Round{}, la.t.change.Over(ctx)
	}
	la.t.Solved = plan.Unheard(la.t.State, len(la.t.Run.Proofs)-from+1)
	if la.t.Run.Step.Call == nil {
		return la.t.replies.presentOpen(ctx)
	}
	la.t.Run.MovedAt, la.t.submitted = la.t.Started, &rec
	return la.t.drive(ctx)
}
