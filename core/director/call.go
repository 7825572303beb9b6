package director

import (
	"cmp"
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// keyed is the call with its attempt and its idempotency key. A pure driver gets none.
func keyed(t *turn, c run.Call) (run.Call, error) {
	c.Attempt = t.Run.Step.Attempt(c.Input)
	desc, _, _ := t.setup.Drivers.Describe(c.Driver)
	if desc.Effect != driver.EffectReads && desc.Effect != driver.EffectEffects {
		return c, nil
	}
	round := 0
	if c.Input == "" {
		round = t.Run.Step.Round
	}
	var err error
	c.Key, err = t.e.secrets.CallKey(t.Run.ID, t.Run.Step.Index, c.Driver, c.Input, round, c.Attempt)
	return c, err
}

// ready makes a call ready to be made, or returns the open call if it is the same
// one. A call that may act is stored before it is made, so that whatever happens
// it is never made a second time: recovering says that its driver is to be asked
// what came of it instead.
func ready(ctx context.Context, t *turn, c run.Call) (_ run.Call, recovering bool, err error) {
	desc, _, _ := t.setup.Drivers.Describe(c.Driver)
	if open := t.Run.Step.Call; open != nil && open.Driver == c.Driver && open.Input == c.Input {
		if open.Acts && !desc.Has(driver.FeatureRecover) {
			return c, false, plan.OutcomeUnknown(t.State)
		}
		return *open, open.Acts || open.Cancelled, nil
	}
	if c, err = keyed(t, c); err != nil || !plan.MayAct(t.State, c, desc) {
		return c, false, err
	}
	c.Acts, c.At = true, t.e.opt.Clock.Now()
	if err := t.apply(run.Event{Kind: run.Called, Input: c.Input, Via: c.Driver, Call: &c}); err != nil {
		return c, false, err
	}
	t.recordBegun()
	if err := t.save(ctx); err != nil {
		return c, false, err
	}
	if f := t.Failure; f != nil {
		*t.refused = *f
	}
	return c, false, nil
}

// recall asks the driver of the open call again.
func recall(ctx context.Context, t *turn) (plan.Action, error) {
	c := *t.Run.Step.Call
	t.Trying = c.Driver
	if c.Input == "" {
		if _, err := t.open(ctx); err != nil {
			return nil, err
		}
		if c.Acts && !plan.ReadsState(t.State, c.Driver) {
			return plan.Unsettle(t.State, "another version of the driver kept a state that this one does not read", true), nil
		}
		if over := plan.StartOver(t.State); over != nil {
			return over, nil
		}
		return advance(ctx, t)
	}
	q := run.Question{Via: c.Driver, Route: c.Route, Path: c.Path, Asked: 1}
	desc, _, _ := t.setup.Drivers.Describe(c.Driver)
	q.Human = desc.Has(driver.FeatureHuman)
	var k *input.Task
	var err error
	if k, q.Input, err = obtained(ctx, t, c.Input); err != nil {
		return nil, err
	}
	q.Phrase = plan.PhraseIn(t.State, k, q.Input)
	beginRoute(t, c.Input, c.At)
	return plan.Render{Task: k, Question: &q, Route: plan.RouteOf(t.State, q)}, nil
}

// obtained is the input that the open call obtains, as it was asked for.
func obtained(ctx context.Context, t *turn, id string) (*input.Task, driver.Input, error) {
	switch kind := input.ByID(id); {
	case kind.Optional:
		in, _, err := offer(ctx, t)
		return input.RunTask(*t.Chain), in, err
	case kind.OfRun:
		in, _ := input.OfRun(*t.Run, *t.Chain)
		return input.RunTask(*t.Chain), in, nil
	}
	k, err := t.open(ctx)
	if err != nil {
		return k, driver.Input{}, err
	}
	for _, in := range t.Run.Step.Inputs {
		if id == in.ID {
			return k, in, nil
		}
		if input.ByID(id).Approves && !input.Of(in.Kind).Internal {
			return k, plan.ApprovalQuestion(t.State, k, in), nil
		}
	}
	return k, driver.Input{}, plan.Unavailable("step %d waits for an input %q that nobody needs", t.Run.Step.Index, id)
}

// Later is a call of a driver whose outcome is pending. The caller may wait for
// After and then give the reply of Retried.
type Later struct {
	Run  run.ID
	Step int
	// Solved is how many steps the reply reports.
	Solved int
	Since  time.Time // when the caller's call began
	After  time.Duration
	// Driver, Message and Progress say what is waited for, for people.
	Driver   string
	Message  string
	Progress *float64
}

// Retried continues a call that waited for a driver.
func (e *Engine) Retried(ctx context.Context, c access.Caller, l Later) (Round, error) {
	return use(e, func(u useCase) (Round, error) {
		t, err := u.resume(ctx, c, l.Run)
		if err != nil {
			return Round{}, err
		}
		if !t.Run.State.Live() {
			return Round{}, t.change.Over(ctx)
		}
		t.Started, t.Solved = l.Since, plan.LastSolved(t.State, l.Solved)
		t.Tried = "to wait for driver " + l.Driver
		if t.Run.Step.Call == nil || t.Run.Step.Index != l.Step {
			return t.show(ctx) // another call continued the run
		}
		t.Target = l.Step
		return t.drive(ctx, nil)
	})
}

// laterOf is what a call may wait for that waits for a driver.
func laterOf(t *turn, c run.Call) *Later {
	return &Later{
		Run: t.Run.ID, Step: t.Run.Step.Index, Solved: len(t.Solved), Since: t.Started, After: plan.RetryIn(t.State, c), Driver: c.Driver,
		Message: cmp.Or(c.Pending.Message, c.Pending.Reason), Progress: c.Pending.Progress,
	}
}
