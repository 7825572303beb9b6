package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// lateAnswer handles a reply to a question that is no longer open.
func lateAnswer(ctx context.Context, t *turn, in Continuation, key, payload string) (Round, error) {
	t.Tried = "to take the client's answer to a question"
	rec, ok, err := t.e.parts.History.Recorded(ctx, t.Run.ID, key)
	if err != nil {
		return Round{}, fmt.Errorf("look up a recorded reply: %w", err)
	}
	switch {
	case ok && rec.Payload == payload:
		return repeat(ctx, t, rec)
	case ok:
		return Round{}, fault.New(fault.Replayed, "this question was answered before, and differently; the first answer stands")
	case !t.Run.State.Live():
		return Round{}, t.change.Over(ctx)
	}
	if q := t.Run.Step.Question; q != nil && q.Human && slices.Contains(q.Earlier, in.Seq) {
		if round, done, err := lateDecline(ctx, t, *q, in); done || err != nil {
			return round, err
		}
	}
	if declinable(t, in.Seq) {
		if round, done, err := lateDecline(ctx, t, questionOfPage(t), in); done || err != nil {
			return round, err
		}
	}
	t.Note = "The question this answers was replaced by a later one."
	noteApproval(t)
	return t.show(ctx)
}

// declinable: the question was approved on its page, and the client's own copy of
// it can still be declined, as long as nothing was done.
func declinable(t *turn, seq int64) bool {
	_, taken := plan.EvidenceOf(t.Run.Step)
	return !taken && t.Run.Step.Call == nil && plan.ApprovalGiven(t.State) && slices.Contains(t.Run.Step.Approval.Questions, seq)
}

// questionOfPage is what was approved on the page, as far as a decline is read with it.
func questionOfPage(t *turn) run.Question {
	a := t.Run.Step.Approval
	in := driver.Input{ID: input.ApprovalKind.Name, Kind: input.ApprovalKind.Name, Schema: input.ApprovalForm, Approval: driver.ApprovalUser, Person: true}
	return run.Question{Input: in, Via: a.Via, Route: a.Route, Client: t.Caller.Client, Human: true}
}

// lateDecline looks whether a person declined an older copy of the question, or to one
// that was approved on its page.
// An approval of it comes too late, but asking again must not undo a decline.
func lateDecline(ctx context.Context, t *turn, q run.Question, in Continuation) (Round, bool, error) {
	k, err := askedTask(ctx, t, q)
	if err != nil {
		return Round{}, false, err
	}
	res, err := read(ctx, t, k, q, in)
	if err != nil || res.Declined == nil {
		return Round{}, false, nil //nolint:nilerr // an answer that cannot be read is not a decline, and is too late
	}
	round, err := t.act(ctx, plan.Decline(t.State, q.Input, q.Via, res.Declined.Reason, q.Seq))
	return round, true, err
}

// repeat repeats a recorded outcome: a reply, the question that followed, or what came of
// a driver's call that had begun.
func repeat(ctx context.Context, t *turn, rec runs.Recorded) (Round, error) {
	var next struct {
		Asks  int64 `json:"asks"`
		Begun int   `json:"begun"`
	}
	switch err := json.Unmarshal(rec.Reply, &next); {
	case err == nil && next.Begun > 0:
		return resumeBegun(ctx, t, rec, next.Begun)
	case err != nil || next.Asks == 0:
		return replay(t, rec)
	}
	if q := t.Run.Step.Question; q != nil && q.Seq == next.Asks {
		return ask(ctx, t, plan.Ask{Question: *q})
	}
	return t.show(ctx)
}

// replay is the reply as it was recorded, with the link that is still open in it.
func replay(t *turn, rec runs.Recorded) (Round, error) {
	var r api.StepReply
	if err := json.Unmarshal(rec.Reply, &r); err != nil {
		return Round{}, fmt.Errorf("decode the reply recorded under %s: %w", rec.Key, err)
	}
	return Round{Reply: &r}, revealReply(t, &r)
}

// resumeBegun continues a call that ended without a reply after a driver began to act
// for it, as the call itself would have: it reports what is solved from that step on. Its
// reply is recorded only if it brings the run further, so that another server which still
// makes the driver's call can save what comes of it.
func resumeBegun(ctx context.Context, t *turn, rec runs.Recorded, from int) (Round, error) {
	if !t.Run.State.Live() {
		return Round{}, t.change.Over(ctx)
	}
	t.Solved = plan.LastSolved(t.State, len(t.Run.Proofs)-from+1)
	if t.Run.Step.Call == nil {
		return t.show(ctx)
	}
	t.Run.MovedAt, t.submitted = t.Started, &rec
	return t.drive(ctx, nil)
}
