package director

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxHops bounds one call: far above what any protocol needs, so that a driver
// that never returns a verdict cannot keep a call for ever.
const maxHops = 1000

// drive plans what is due and does it, until somebody is needed: the client (Round.Ask)
// or the agent (Round.Reply). It begins with the action; nil begins with what is due.
func (t *turn) drive(ctx context.Context, action plan.Action) (Round, error) {
	for range maxHops {
		round, err := t.act(ctx, action)
		if f := shown(err); f != nil {
			return t.halt(ctx, f)
		}
		if err != nil || round.Reply != nil || round.Ask != nil {
			return round, err
		}
		if err := ctx.Err(); err != nil {
			return Round{}, err
		}
		t.tick()
		t.decided = nil
		action = plan.Next(t.State)
	}
	return t.halt(ctx, plan.Unavailable("step %d went round %d times without a verdict", t.Run.Step.Index, maxHops))
}

// act does an action and what it leads to at once. An empty Round means: look again.
func (t *turn) act(ctx context.Context, action plan.Action) (round Round, err error) {
	for action != nil && err == nil && round.Reply == nil && round.Ask == nil {
		t.tick() // the last action may have taken time
		switch a := action.(type) {
		case plan.Apply:
			action, err = a.Then, t.applyAll(ctx, a)
		case plan.Look:
			action = a(t.State)
		case plan.Remember:
			action, err = a.Then, remember(ctx, t, a.Decline)
		case plan.KeepAccepted:
			action, err = a.Then, keepAccepted(ctx, t, a.Question)
		case plan.Renew:
			action, err = a.Then, renew(t)
		case plan.Accept:
			action, err = nil, accept(t, a)
		case plan.Omit:
			action, t.Solution, t.Omission = nil, nil, a.Why
		case plan.Show:
			action = nil
			t.showOnly(a.Failure)
		case plan.Need:
			action, err = nil, need(ctx, t, a.Lookup)
		case plan.Obtain:
			action, err = obtain(ctx, t, a.Input)
		case plan.Render:
			action, err = render(ctx, t, a)
		case plan.ToPage:
			action = plan.PutOnPage(t.State, a, linkFor(t, a.Question.Input))
		case plan.Read:
			action, err = t.drivers().Read(ctx, t.State, a)
		case plan.Preview:
			action = t.drivers().Preview(ctx, t.State, a)
		case plan.Judge:
			action, err = judge(ctx, t)
		case plan.Gate:
			action, err = gate(ctx, t, a.Result)
		case plan.Recall:
			action, err = recall(ctx, t)
		case plan.Ask:
			round, err = ask(ctx, t, a)
		case plan.Wait:
			round, err = t.wait(ctx, a)
		case plan.Reply:
			if round, err = t.reply(ctx, a.StepReply); plan.MayBeAnswered(t.State) {
				round.Pending = pendingIn(t)
			}
		case plan.Halt:
			action, err = nil, halted(ctx, t, a)
		}
	}
	return round, err
}

// need finds out what the rules cannot know by themselves.
func need(ctx context.Context, t *turn, what plan.Lookup) error {
	if what == plan.TheTask {
		_, err := t.open(ctx)
		return err
	}
	in, some, err := offer(ctx, t)
	if t.OfferOver = !some; some {
		t.Offer = &in
	}
	return err
}

// offer is the question whether the person accepts what drivers could do; false: there is nothing to accept.
func offer(ctx context.Context, t *turn) (in driver.Input, some bool, err error) {
	could, err := t.e.parts.Offers.Of(ctx, t.setup, *t.Chain, *t.Run, t.Caller.Client)
	if err != nil {
		return in, false, err
	}
	return could.Question()
}

// applyAll records what follows from what is known.
func (t *turn) applyAll(ctx context.Context, a plan.Apply) error {
	for _, ev := range a.Events {
		if at := ev.Attempt; at != nil {
			t.e.log.DebugContext(ctx, "route closed", "run", t.Run.ID, "step", t.Run.Step.Index, "input", at.Input, "via", at.Via, "outcome", at.Outcome, "reason", at.Reason)
		}
		if err := t.apply(ev); err != nil {
			return err
		}
	}
	t.Note = plain.Sentences(t.Note, a.Note)
	if a.Used {
		t.Solution = nil
	}
	return nil
}

// showOnly makes the call show the open step and ask nobody. A failure uses up the submission.
func (t *turn) showOnly(f *plan.Failure) {
	t.Caller.Detached = true
	if f != nil {
		t.Solution, t.Target, t.Due, t.Failure = nil, 0, "", f
	}
}

// halted is the error of a halt. Nil: whoever resumed the run is asked whether they accept
// what it stands still for.
func halted(ctx context.Context, t *turn, h plan.Halt) error {
	switch {
	case !h.Acceptable:
		return h.Fault
	case t.resumed && !t.OfferReady:
		t.OfferReady = true
		return nil
	}
	f := *h.Fault
	f.Message = plain.Sentences(f.Message, acceptable(ctx, t))
	return &f
}

// halt is the reply when the run waits for something that is not the agent's
// fault. No retry is counted and the step stays open.
func (t *turn) halt(ctx context.Context, f *fault.Error) (Round, error) {
	if t.change.New() && (f.Code == fault.MissingInput || f.Code == fault.InvalidArgument) {
		return Round{}, f // nothing began
	}
	if q := t.Run.Step.Question; q != nil { // nothing was decided of it, so there is nothing to repeat
		t.pending = slices.DeleteFunc(t.pending, func(r runs.Recorded) bool { return r.Key == seqKey(q.Seq) })
	}
	t.e.log.WarnContext(ctx, "step waits", "run", t.Run.ID, "step", t.Run.Step.Index, "code", f.Code, "error", f)
	return t.reply(ctx, plan.HaltReply(t.State, f))
}

// driveFrom drives with the action, unless it could not be found.
func (t *turn) driveFrom(ctx context.Context, action plan.Action, err error) (Round, error) {
	if f := shown(err); f != nil {
		return t.halt(ctx, f)
	}
	if err != nil {
		return Round{}, err
	}
	return t.drive(ctx, action)
}

// show shows the open step, whatever is due at it, and asks nobody.
func (t *turn) show(ctx context.Context) (Round, error) { return t.drive(ctx, plan.Show{}) }

// orDrive is the round, or what the run comes to if it is empty.
func (t *turn) orDrive(ctx context.Context, round Round, err error) (Round, error) {
	if err != nil || round.Reply != nil || round.Ask != nil {
		return round, err
	}
	return t.drive(ctx, nil)
}

// wait says what the run waits for.
func (t *turn) wait(ctx context.Context, w plan.Wait) (Round, error) {
	var r api.StepReply
	if w.Call != nil {
		r = plan.DriverReply(t.State, *w.Call)
	} else {
		r = plan.WaitingReply(t.State, w.Task, *w.Question)
	}
	round, err := t.reply(ctx, r)
	if err != nil || t.Caller.Detached || t.Failure != nil {
		return round, err
	}
	if c := w.Call; c != nil {
		round.Later = laterOf(t, *c)
	} else if t.Run.Step.Question != nil && w.Meanwhile {
		round.Pending = pendingIn(t)
	}
	return round, nil
}

// pendingIn is the open question, which a person answers apart from the client.
func pendingIn(t *turn) *Pending {
	return &Pending{Run: t.Run.ID, Seq: t.Run.Step.Question.Seq, Solved: len(t.Solved)}
}
