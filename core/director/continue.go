package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/solution"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Continue takes the client's reply to an Ask. The same reply to the same
// question again gets the recorded outcome; another one is fault.Replayed.
func (e *Engine) Continue(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	return use(e, func(u useCase) (Round, error) { return u.resumeWith(ctx, c, in) })
}

func (u useCase) resumeWith(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	t, err := u.resume(ctx, c, in.Run)
	if err != nil {
		return Round{}, err
	}
	payload, err := payloadOf(in)
	if err != nil {
		return Round{}, fault.Wrap(err, fault.InvalidArgument, "the client's reply is not JSON")
	}
	key := seqKey(in.Seq)
	q := t.Run.Step.Question
	if q == nil || q.Seq != in.Seq {
		round, err := lateAnswer(ctx, t, in, key, payload)
		return t.orDrive(ctx, round, err)
	}
	t.resumeCall(*q)
	t.Tried = "to take the client's answer to " + q.Ask.Method
	t.pending = []runs.Recorded{{Key: key, Payload: payload}}
	action, err := answer(ctx, t, *q, in)
	return t.driveFrom(ctx, action, err)
}

// resumeCall makes the turn the call that asked the question, with its step and
// input as what it is about.
func (t *turn) resumeCall(q run.Question) {
	t.rejoin(q)
	t.Run.MovedAt = t.change.Now()
	t.Target, t.Asked = t.Run.Step.Index, plan.Subject{Step: t.Run.Step.Index, Input: q.Input.ID}
	t.Trying = q.Via
	beginRoute(t, q.Input.ID, q.AskedAt)
	if input.Of(q.Input.Kind).Between {
		t.Target = 0
	}
}

// rejoin makes the turn a part of the call that asked the question.
func (t *turn) rejoin(q run.Question) {
	t.Started = cmp.Or(q.Since, t.Started)
	t.Solved, t.Note = plan.LastSolved(t.State, q.Unheard), plain.Sentences(t.Note, q.Note)
}

func seqKey(seq int64) string { return fmt.Sprintf("seq:%d", seq) }

func payloadOf(in Continuation) (string, error) {
	b, err := json.Marshal(struct {
		Result json.RawMessage     `json:"result,omitempty"`
		Error  *driver.ClientError `json:"error,omitempty"`
	}{in.Result, in.Error})
	if err != nil {
		return "", err
	}
	return solution.Sum(b), nil
}

// Waiting is the reply when the time a call may wait has passed. A person's
// question stays open; any other is given up and the next route is shown.
func (e *Engine) Waiting(ctx context.Context, c access.Caller, id run.ID, seq int64) (api.StepReply, error) {
	round, err := use(e, func(u useCase) (Round, error) {
		t, err := u.resume(ctx, c, id)
		if err != nil {
			return Round{}, err
		}
		t.Caller.Detached, t.Tried = true, "to wait for the client's answer"
		q := t.Run.Step.Question
		if q == nil || q.Seq != seq {
			noteApproval(t)
			return t.show(ctx)
		}
		t.rejoin(*q)
		if u.setup.Tree.On(plan.RouteOf(t.State, *q), decision.TimedOut).Kind == decision.Again {
			k, err := askedTask(ctx, t, *q)
			if err != nil {
				return Round{}, err
			}
			return t.drive(ctx, plan.Wait{Task: k, Question: q})
		}
		return t.drive(ctx, plan.Close(t.State, q.Input.ID, plan.RouteOf(t.State, *q), decision.TimedOut, "no reply in time", seq))
	})
	return replyOf(round, err)
}

// replyOf is the reply of a round that asks nothing.
func replyOf(round Round, err error) (api.StepReply, error) {
	if err != nil || round.Reply == nil {
		return api.StepReply{}, err
	}
	return *round.Reply, nil
}

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
	said := t.drivers().Interpret(ctx, t.State, k, q, in.Result, in.Error)
	t.tick()
	if said.Err != nil || said.Result.Declined == nil || in.Delay.Under() {
		return Round{}, false, nil //nolint:nilerr // an answer that cannot be read is not a decline, and is too late
	}
	round, err := t.act(ctx, plan.Decline(t.State, q.Input, q.Via, said.Result.Declined.Reason, q.Seq))
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

// Unanswered is for a client that came back without an answer to an Ask, as in
// the 2026-07-28 era, where no client says that it refused. The question goes
// out again, under the same number, at most plan.MaxUnanswered times. After that a
// person's question stays open and the reply says that the run waits for them;
// any other question is abandoned and the next route is taken.
func (e *Engine) Unanswered(ctx context.Context, c access.Caller, id run.ID, seq int64) (Round, error) {
	return use(e, func(u useCase) (Round, error) { return u.unanswered(ctx, c, id, seq) })
}

func (u useCase) unanswered(ctx context.Context, c access.Caller, id run.ID, seq int64) (Round, error) {
	t, err := u.resume(ctx, c, id)
	if err != nil {
		return Round{}, err
	}
	if !t.Run.State.Live() {
		return Round{}, t.change.Over(ctx)
	}
	q := t.Run.Step.Question
	if q == nil || q.Seq != seq {
		t.Tried = "to ask the client a question again"
		t.Note = "The question was settled, or replaced by a later one."
		noteApproval(t)
		return t.show(ctx)
	}
	t.resumeCall(*q)
	t.Tried = "to get the client's answer to " + q.Ask.Method
	action, err := askedInVain(ctx, t, *q)
	return t.driveFrom(ctx, action, err)
}

// askedInVain counts a round without an answer, and decides what follows.
func askedInVain(ctx context.Context, t *turn, q run.Question) (plan.Action, error) {
	k, err := askedTask(ctx, t, q)
	if err != nil {
		return nil, err
	}
	r := plan.RouteOf(t.State, q)
	switch {
	case plan.GivenUp(t.State, q):
		return plan.Abandon(t.State, q, r), nil
	case q.Unanswered+1 >= plan.MaxUnanswered:
		return plan.Wait{Task: k, Question: &q}, nil
	}
	if err := t.apply(run.Event{Kind: run.Unanswered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via}); err != nil {
		return nil, err
	}
	return plan.Ask{Question: *t.Run.Step.Question, Route: r}, nil
}

// Pending is a question that a person answers apart from the client. The caller
// may wait with Settled and then give the reply of Resumed.
type Pending struct {
	Run run.ID
	Seq int64
	// Solved is how many steps the reply reports.
	Solved int
}

// answers wakes who waits for an approval that is answered on its page in this
// process. The zero value is ready; it is safe for concurrent use.
type answers struct {
	mu   sync.Mutex    // guards next
	next chan struct{} // closed with the next answer; nil: nobody waits
}

// settleLook is how often a store is looked at for an answer that another
// process took.
const settleLook = time.Second

// Settled returns nil once the question is no longer open, whoever answered it,
// and the context's error before.
func (e *Engine) Settled(ctx context.Context, id run.ID, seq int64) error {
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for {
		answered := e.answers.listen()
		r, err := e.parts.Runs.Read(ctx, id)
		if q := r.Step.Question; err == nil && (q == nil || q.Seq != seq) {
			return nil
		}
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		select {
		case <-answered:
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resumed is the reply after a question was settled: the open step as it is now.
func (e *Engine) Resumed(ctx context.Context, c access.Caller, p Pending) (api.StepReply, error) {
	round, err := use(e, func(u useCase) (Round, error) {
		t, err := u.resume(ctx, c, p.Run)
		if err != nil {
			return Round{}, err
		}
		t.Tried, t.Solved = "to wait for a person's answer", plan.LastSolved(t.State, p.Solved)
		noteApproval(t)
		return t.show(ctx)
	})
	return replyOf(round, err)
}

// listen returns a channel that is closed with the next answer, to whichever run.
func (a *answers) listen() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *answers) notify() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}
