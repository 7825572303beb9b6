package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Continue takes the client's reply to an Ask. The same reply to the same
// question again gets the recorded outcome; another one is fault.Replayed.
func (e *Engine) Continue(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	h, release := e.hold()
	defer release()
	return runs.Again(func() (Round, error) { return h.resumeWith(ctx, c, in) })
}

func (e held) resumeWith(ctx context.Context, c access.Caller, in Continuation) (Round, error) {
	t, err := e.resume(ctx, c, in.Run)
	if err != nil {
		return Round{}, err
	}
	payload, err := payloadOf(in)
	if err != nil {
		return Round{}, fault.Wrap(err, fault.InvalidArgument, "the client's reply is not JSON")
	}
	key := fmt.Sprintf("seq:%d", in.Seq)
	q := t.Run.Step.Question
	if q == nil || q.Seq != in.Seq {
		return t.late.late(ctx, in, key, payload)
	}
	t.resumeCall(*q)
	t.replies.tried = "to take the client's answer to " + q.Ask.Method
	t.pending = []runs.Recorded{{Key: key, Payload: payload}}
	round, err := t.questions.answer(ctx, *q, in)
	if f := (*fault.Error)(nil); asFault(err, &f) {
		if open := t.Run.Step.Question; open != nil && open.Seq == in.Seq {
			t.pending = nil // nothing was decided, so there is nothing to repeat
		}
		return t.replies.halt(ctx, f)
	}
	if err != nil || round.Reply != nil || round.Ask != nil {
		return round, err
	}
	return t.drive(ctx)
}

// resumeCall makes the turn the call that asked the question, with its step and
// input as what it is about.
func (t *turn) resumeCall(q run.Question) {
	t.goOn(q)
	t.Run.MovedAt = t.Now()
	t.target, t.questions.asked = t.Run.Step.Index, subject{t.Run.Step.Index, q.Input.ID}
	t.observation.trying = q.Via
	t.observation.begin(q.Input.ID, q.AskedAt)
	switch q.Input.Kind {
	case driver.KindFiles:
		t.target = 0 // the evidence is there: an agent that has to report them is shown so, nothing is missed
	case driver.KindRunInput:
		t.target = 0 // the first step begins after it: its work is shown, not missed
	}
}

// goOn makes the turn a part of the call that asked the question.
func (t *turn) goOn(q run.Question) {
	t.started = cmp.Or(q.Since, t.started)
	t.replies.solved, t.replies.note = t.replies.unheard(q.Unheard), plain.Sentences(t.replies.note, q.Note)
}

func payloadOf(in Continuation) (string, error) {
	b, err := json.Marshal(struct {
		Result json.RawMessage     `json:"result,omitempty"`
		Error  *driver.ClientError `json:"error,omitempty"`
	}{in.Result, in.Error})
	if err != nil {
		return "", err
	}
	return sum(b), nil
}

// late handles a reply to a question that is no longer open.
func (la *late) late(ctx context.Context, in Continuation, key, payload string) (Round, error) {
	rec, ok, err := la.t.e.store.History.Recorded(ctx, la.t.Run.ID, key)
	if err != nil {
		return Round{}, fmt.Errorf("look up a recorded reply: %w", err)
	}
	switch {
	case ok && rec.Payload == payload:
		return la.replayOrAsk(ctx, rec)
	case ok:
		return Round{}, fault.New(fault.Replayed, "this question was answered before, and differently; the first answer stands")
	case !la.t.Run.State.Live():
		return Round{}, la.t.Over(ctx)
	}
	if q := la.t.Run.Step.Question; q != nil && q.Human && slices.Contains(q.Earlier, in.Seq) {
		if round, done, err := la.lateNo(ctx, *q, in); done || err != nil {
			return round, err
		}
	}
	if la.unsettled(in.Seq) {
		if round, done, err := la.lateNo(ctx, la.questionOfPage(), in); done || err != nil {
			return round, err
		}
	}
	la.t.replies.note = "The question this answers was replaced by a later one."
	la.t.approvals.noteApproval()
	la.t.replies.tried = "to take the client's answer to a question"
	return la.t.replies.presentOpen(ctx)
}

// unsettled: the question was approved on its page, and the client's own copy of
// it can still be answered with a no, as long as nothing was done.
func (la *late) unsettled(seq int64) bool {
	_, taken := evidenceOf(la.t.Run.Step)
	return !taken && la.t.Run.Step.Call == nil && la.t.approvals.approvalGiven() && slices.Contains(la.t.Run.Step.Approval.Questions, seq)
}

// questionOfPage is what was approved on the page, as far as a no is read with it.
func (la *late) questionOfPage() run.Question {
	a := la.t.Run.Step.Approval
	in := driver.Input{ID: driver.KindApproval, Kind: driver.KindApproval, Schema: approvalSchema, Approval: driver.ApprovalUser, Person: true}
	return run.Question{Input: in, Via: a.Via, Route: a.Route, Client: la.t.caller.Client, Human: true}
}

// lateNo looks whether a person said no to an older copy of the question, or to one
// that was approved on its page.
// A yes to it comes too late, but asking again must not be a way around a no.
func (la *late) lateNo(ctx context.Context, q run.Question, in Continuation) (Round, bool, error) {
	k, err := la.t.questions.askedTask(ctx, q)
	if err != nil {
		return Round{}, false, err
	}
	res, err := la.t.questions.read(ctx, k, q, in)
	if err != nil || res.Declined == nil {
		return Round{}, false, nil //nolint:nilerr // an answer that cannot be read is no no, and loses as any late one
	}
	round, err := la.t.replies.decline(ctx, q.Input, q.Via, res.Declined.Reason, q.Seq)
	return round, true, err
}

// replayOrAsk repeats a recorded outcome: a reply, or the question that followed.
func (la *late) replayOrAsk(ctx context.Context, rec runs.Recorded) (Round, error) {
	var next struct {
		Asks int64 `json:"asks"`
	}
	if json.Unmarshal(rec.Reply, &next) != nil || next.Asks == 0 {
		return replay(rec)
	}
	if q := la.t.Run.Step.Question; q != nil && q.Seq == next.Asks {
		return la.t.questions.ask(ctx, *q, decision.Route{})
	}
	return la.t.replies.presentOpen(ctx)
}

// read lets the capability driver that asked, or what has its name now, read
// the client's reply.
func (qs *questions) read(ctx context.Context, k task, q run.Question, in Continuation) (driver.InterpretResult, error) {
	drv, ok := qs.t.e.Drivers.Capability(q.Via, qs.t.e.routeOf(q).CallTimeout)
	if !ok {
		return driver.CannotInterpret("the driver is not configured any more"), nil
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: q.Input, Step: k.where, Client: q.Client, Raw: in.Result, ClientError: in.Error, IdempotencyKey: q.Key, Attempt: q.Attempt,
	})
	if res.Answer != nil && q.Input.Kind == driver.KindApproval && sentToAddress(q.Ask) {
		// Such a question shows an address and no form: nobody saw what a yes is to.
		return driver.LeftOut("the client was asked to open the approval page; the answer comes from there"), err
	}
	return res, err
}

// ByURL reports whether a request asks the client to have a person open an
// address, and the id of that elicitation.
func ByURL(method string, params json.RawMessage) (id string, byURL bool) {
	var p struct {
		Mode string `json:"mode"`
		ID   string `json:"elicitationId"`
	}
	if method != methodElicitation || json.Unmarshal(params, &p) != nil || p.Mode != "url" {
		return "", false
	}
	return p.ID, true
}

func sentToAddress(a driver.ClientRequest) bool {
	_, byURL := ByURL(a.Method, a.Params)
	return byURL
}

// answer takes the client's reply as its driver reads it.
func (qs *questions) answer(ctx context.Context, q run.Question, in Continuation) (Round, error) {
	k, err := qs.askedTask(ctx, q)
	if err != nil {
		return Round{}, err
	}
	r := qs.t.e.routeOf(q)
	res, err := qs.read(ctx, k, q, in)
	if err == nil && res.Missing != nil && q.Link != nil {
		return qs.openedPage(ctx, k, q)
	}
	if err == nil && res.Dismissed != nil && q.Human {
		return qs.dismissed(ctx, k, q, res.Dismissed.Reason)
	}
	unread := res.Answer == nil && res.Declined == nil && res.Invalid == nil
	if q.Human && in.Error == nil && (err != nil || unread) {
		// The person has answered, perhaps with a no. Until they are asked again it
		// counts as one, so that nobody else answers in their place.
		no := run.Event{Kind: run.Declined, Input: q.Input.ID, Via: q.Via, Seq: q.Seq, Reason: "the answer could not be read"}
		if err := qs.t.apply(no); err != nil {
			return Round{}, err
		}
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read what the person answered to step %d; call kairos_next again to have them asked again", q.Via, k.where.Index)
	}
	switch {
	case err != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, err.Error(), q.Seq)
	case res.Answer != nil:
		return qs.answered(ctx, k, q, r, *res.Answer)
	case res.Declined != nil:
		return qs.t.replies.decline(ctx, q.Input, q.Via, res.Declined.Reason, q.Seq)
	case res.Invalid != nil:
		return qs.invalid(ctx, k, q, r, res.Invalid.Diagnostics)
	case res.Unavailable != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, outcomeOf(in), res.Unavailable.Reason, q.Seq)
	case res.Missing != nil:
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Invalid, res.Missing.Reason, q.Seq)
	}
	return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, "driver gave no outcome", q.Seq)
}

// outcomeOf tells a client that failed from one that never could.
func outcomeOf(in Continuation) decision.Outcome {
	const methodNotFound = -32601
	if in.Error != nil && in.Error.Code != methodNotFound {
		return decision.Errored
	}
	return decision.Unavailable
}

// askedTask is the task the question is about. When nobody can judge the step
// any more, because its driver was removed meanwhile, it is only where the step
// stands: that is enough to read an answer, which must not be lost.
func (qs *questions) askedTask(ctx context.Context, q run.Question) (task, error) {
	if q.Input.Kind == driver.KindRunInput {
		return qs.t.obtaining.inputTask(), nil
	}
	k, err := qs.t.open(ctx)
	if fault.CodeOf(err) == fault.DriverUnavailable {
		return qs.t.place(), nil
	}
	return k, err
}

// routeOf is the question's route in the tree of today; the tree may have
// changed since, then the question's own words count.
func (e held) routeOf(q run.Question) decision.Route {
	if r, ok := e.Tree.RouteAt(q.Path, q.Via); ok {
		return r
	}
	r := decision.Route{Index: q.Route, Path: q.Path, Via: q.Via, Human: q.Human}
	r.Retries = e.Tree.On(r, decision.Invalid).Retries
	return r
}

func (qs *questions) answered(ctx context.Context, k task, q run.Question, r decision.Route, a driver.Answer) (Round, error) {
	a.InputID, a.Via = q.Input.ID, q.Via
	if problem := qs.t.trust.doubt(q.Input, a, q.Via); problem != "" {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Errored, problem, q.Seq)
	}
	ev := run.Event{Kind: run.Answered, Seq: q.Seq, Input: q.Input.ID, Via: q.Via, Answer: &a}
	switch q.Input.Kind {
	case driver.KindApproval:
		if !saysYes(a.Value) {
			return qs.t.replies.decline(ctx, q.Input, q.Via, "not approved", q.Seq)
		}
		if wrong := wrongPhrase(q.Phrase, typedIn(a.Value)); wrong != "" {
			return qs.invalid(ctx, k, q, r, []driver.Diagnostic{driver.Problem("/content/phrase", wrong)})
		}
		ev.Approval = qs.t.approvals.approval(r, a.Provenance, run.BasisForm)
		ev.Approval.Digest, ev.Approval.Typed = q.Digest, q.Phrase != ""
	case driver.KindRunInput:
		merged, err := qs.t.obtaining.inputAnswer(a)
		if err != nil {
			return qs.invalid(ctx, k, q, r, []driver.Diagnostic{driver.Problem("", err.Error())})
		}
		ev.Answer = merged.Answer
	case driver.KindFiles:
		if round, wrong, err := qs.t.obtaining.fileTrouble(ctx, a, r, q.Seq); wrong || err != nil {
			return round, err
		}
	}
	if err := qs.t.apply(ev); err != nil {
		return Round{}, err
	}
	return qs.t.obtaining.settled(ctx, q.Input, a)
}

// invalid asks again with the diagnostics, as often as the route allows, and
// then takes the next route.
func (qs *questions) invalid(ctx context.Context, k task, q run.Question, r decision.Route, ds []driver.Diagnostic) (Round, error) {
	if qs.t.caller.Detached || q.Repairs >= r.Retries {
		return Round{}, qs.t.obtaining.closeRoute(ctx, q.Input.ID, r, decision.Invalid, describe(ds), q.Seq)
	}
	repair := q
	repair.Repairs++
	return qs.render(ctx, k, repair, r, ds)
}

// Waiting is the reply when the time a call may wait has passed. A person's
// question goes on; any other is given up and the next route is shown.
func (e *Engine) Waiting(ctx context.Context, c access.Caller, id run.ID, seq int64) (api.StepReply, error) {
	h, release := e.hold()
	defer release()
	round, err := runs.Again(func() (Round, error) {
		t, err := h.resume(ctx, c, id)
		if err != nil {
			return Round{}, err
		}
		t.caller.Detached, t.replies.tried = true, "to wait for the client's answer"
		q := t.Run.Step.Question
		if q == nil || q.Seq != seq {
			t.approvals.noteApproval()
			return t.replies.presentOpen(ctx)
		}
		t.goOn(*q)
		if h.Tree.On(h.routeOf(*q), decision.TimedOut).Kind == decision.Again {
			k, err := t.questions.askedTask(ctx, *q)
			if err != nil {
				return Round{}, err
			}
			return t.questions.waiting(ctx, k, *q)
		}
		err = t.obtaining.closeRoute(ctx, q.Input.ID, t.e.routeOf(*q), decision.TimedOut, "no reply in time", seq)
		if f := (*fault.Error)(nil); asFault(err, &f) {
			return t.replies.halt(ctx, f)
		}
		if err != nil {
			return Round{}, err
		}
		return t.replies.presentOpen(ctx)
	})
	if err != nil || round.Reply == nil {
		return api.StepReply{}, err
	}
	return *round.Reply, nil
}

// uncounted is said of work that came before its approval.
const uncounted = "The work that was sent is not counted: it was not approved before it was done."

func (qs *questions) waiting(ctx context.Context, k task, q run.Question) (Round, error) {
	r := qs.t.replies.view().Reply(qs.t.step(), qs.t.replies.shownAsIs(k, q.Input))
	r.ErrorCode = string(fault.WaitingForUser)
	r.RetryCount = &qs.t.Run.Step.Failures
	where := []string{"in the client that was asked"}
	if !q.Closed.IsZero() {
		where = nil // the client shows it no more
	}
	with := "with the same solution"
	if q.Input.Kind == driver.KindApproval {
		with = "with the placeholder solution of next_call"
		if qs.t.solution.supplied() {
			r.Message = plain.Sentences(r.Message, uncounted)
		}
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if qs.t.links.linkHolds(&q) {
		r.ApprovalURL = qs.t.links.linkTo(q.Link)
		where = append(where, "on the approval page "+r.ApprovalURL)
	}
	said := "The person was asked and has not answered yet."
	switch {
	case !q.Human:
		said = "The client was asked and has not answered yet."
	case !q.Closed.IsZero():
		said, r.NextAction = qs.dismissal(q, r.NextAction)
	}
	if q.Elsewhere != "" {
		said, where = plain.Sentences(q.Elsewhere, "Nobody has answered yet."), []string{"on the approval page " + r.ApprovalURL}
		r.NextAction = fmt.Sprintf("show the person approval_url, then call kairos_next with %s again, %s; "+
			"the link is theirs alone, and good until %s", r.CurrentStep.URI, with, q.Link.ExpiresAt.UTC().Format(time.RFC3339))
	}
	open := strings.TrimSpace("The question stays open " + strings.Join(where, ", and "))
	r.Message = plain.Sentences(r.Message, said, open+"; calling kairos_next again continues it")
	r.NextCall = qs.t.replies.view().LeaveToServer(r.Challenge.Type)
	return qs.t.reply(ctx, r)
}
