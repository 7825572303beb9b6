package director

import (
	"context"
	"errors"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// CancelInput names what a person wants to end.
type CancelInput struct {
	Run run.ID
	By  string // who cancels, for the record
}

// CancelReply says what became of it.
type CancelReply struct {
	RunID  string `json:"run_id"`
	Driver string `json:"driver"`
	Step   int    `json:"step"`
	// Ended: the driver ended it. Otherwise the server that runs the driver tells it
	// when it asks next.
	Ended bool `json:"ended"`
}

// Cancel ends what a driver does for the open step of a run. A detached caller only
// records it: the driver belongs to another server, which tells it.
func (e *Engine) Cancel(ctx context.Context, c access.Caller, in CancelInput) (CancelReply, error) {
	return use(e, func(u useCase) (CancelReply, error) { return u.cancel(ctx, c, in) })
}

func (u useCase) cancel(ctx context.Context, c access.Caller, in CancelInput) (CancelReply, error) {
	t, err := u.oversee(ctx, c, in.Run)
	if err != nil {
		return CancelReply{}, err
	}
	if !t.Run.State.Live() {
		return CancelReply{}, t.change.Over(ctx)
	}
	open := t.Run.Step.Call
	if open == nil {
		return CancelReply{}, fault.New(fault.InvalidArgument, "run %s waits for no driver: there is nothing to cancel; `kairos runs end` ends the run", in.Run)
	}
	reply := CancelReply{RunID: string(in.Run), Driver: open.Driver, Step: t.Run.Step.Index}
	if err := cancelCall(ctx, t, in.By); err != nil {
		return CancelReply{}, err
	}
	if !c.Detached {
		err = endCancelled(ctx, t)
		reply.Ended = t.Run.Step.Call == nil
	}
	return reply, err
}

// cancelCall records that somebody wants the open call to end. It is stored before the
// driver is told, so that whoever asks the driver next tells it.
func cancelCall(ctx context.Context, t *turn, by string) error {
	c := *t.Run.Step.Call
	if desc, _, _ := t.setup.Drivers.Describe(c.Driver); !desc.Has(driver.FeatureCancel) {
		return fault.New(fault.InvalidArgument, "What driver %s does for step %d cannot be cancelled: the driver does not offer it.", c.Driver, t.Run.Step.Index).
			WithNext("wait for it with kairos_next and %s, or end the run with kairos_attest and outcome failure", protocol.URI(plan.OpenStep(t.State).UUID))
	}
	if c.Cancelled {
		return nil
	}
	if err := t.apply(run.Event{Kind: run.Cancelled, Input: c.Input, Via: c.Driver, Reason: "by " + plain.Clip(by, 200)}); err != nil {
		return err
	}
	return t.save(ctx)
}

// endCancelled tells the driver, and takes what it says has come of the call. What
// that leads to is left to the next kairos_next.
func endCancelled(ctx context.Context, t *turn) error {
	_, err := t.act(ctx, plan.Follow(t.State))
	if err != nil && shown(err) == nil {
		return err
	}
	return errors.Join(t.save(ctx), ctx.Err())
}

// cancelNow is kairos_next with cancel: it ends what runs, and starts nothing.
func cancelNow(ctx context.Context, t *turn) (Round, error) {
	t.Run.MovedAt = t.Started
	if t.Run.Step.Call == nil {
		t.Note = plain.Sentences(t.Note, "The server does nothing for this step now, so there was nothing to cancel.")
		return t.show(ctx)
	}
	err := cancelCall(ctx, t, "kairos_next")
	var round Round
	if err == nil {
		round, err = t.act(ctx, plan.Follow(t.State))
	}
	if f := shown(err); f != nil {
		return t.halt(ctx, f)
	}
	if err != nil || round.Reply != nil {
		return round, err
	}
	return t.show(ctx) // it had ended before
}

// giveUpCall ends what runs for a run that ends, as far as that is possible.
func giveUpCall(ctx context.Context, t *turn, by string) error {
	if !plan.Endable(t.State) {
		return nil
	}
	if err := cancelCall(ctx, t, by); err != nil {
		return err
	}
	return endCancelled(ctx, t)
}

// Abandon ends a run that nobody will continue, and before it what a driver does for
// its open step. A detached caller is refused while something runs that was not
// cancelled: the driver belongs to another server.
func (e *Engine) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error) {
	if err := e.endWork(ctx, c, id); err != nil {
		return run.Summary{}, err
	}
	return e.parts.Archive.Abandon(ctx, c, id, reason)
}

func (e *Engine) endWork(ctx context.Context, c access.Caller, id run.ID) error {
	_, err := use(e, func(u useCase) (struct{}, error) { return struct{}{}, u.endWork(ctx, c, id) })
	return err
}

func (u useCase) endWork(ctx context.Context, c access.Caller, id run.ID) error {
	t, err := u.oversee(ctx, c, id)
	if err != nil || !t.Run.State.Live() || !plan.Endable(t.State) {
		return err
	}
	if !c.Detached {
		return giveUpCall(ctx, t, "runs abandon")
	}
	if open := t.Run.Step.Call; !open.Cancelled {
		return fault.New(fault.InvalidArgument, "driver %s is at work for step %d of run %s, and would not stop with the run", open.Driver, t.Run.Step.Index, id).
			WithNext("end that with `kairos runs cancel %s`, then abandon the run", id)
	}
	return nil
}
