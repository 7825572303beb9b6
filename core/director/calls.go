package director

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

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
	if c, err = t.drivers().Keyed(t.State, c); err != nil || !plan.MayAct(t.State, c, desc) {
		return c, false, err
	}
	acting := c
	acting.Acts, acting.At = true, t.e.opt.Clock.Now()
	if err := t.apply(run.Event{Kind: run.Called, Input: c.Input, Via: c.Driver, Call: &acting}); err != nil {
		return acting, false, err
	}
	t.recordBegun()
	if err := t.save(ctx); err != nil {
		return acting, false, err
	}
	if f := t.Failure; f != nil {
		*t.refused = *f
	}
	return acting, false, nil
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
		return judge(ctx, t)
	}
	q := run.Question{Via: c.Driver, Route: c.Route, Path: c.Path, Asked: 1}
	desc, _, _ := t.setup.Drivers.Describe(c.Driver)
	q.Human = desc.Has(driver.FeatureHuman)
	var k *input.Task
	var err error
	if k, q.Input, err = obtained(ctx, t, c.Input); err != nil {
		return nil, err
	}
	q.Phrase = plan.PhraseIn(k, q.Input)
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

// judge lets the challenge driver judge the answers so far.
func judge(ctx context.Context, t *turn) (plan.Action, error) {
	k := t.Task
	if k.Free() {
		return plan.JudgeFree(t.State, k), nil
	}
	if _, ok := t.setup.Drivers.Challenge(k.Use); !ok {
		return nil, plan.Unavailable("driver %s, which judges challenges of type %q, is not configured", k.Use, k.Common.Type)
	}
	if s := t.Run.Step; s.Round >= plan.MaxRounds {
		return nil, plan.Unavailable("driver %s asked for input %d times without a verdict on step %d", k.Use, s.Round, s.Index)
	}
	c, recovering, err := ready(ctx, t, run.Call{Driver: k.Use})
	if err != nil {
		return nil, err
	}
	made := t.drivers().Judge(ctx, t.State, c, recovering)
	t.heard(made.Result.NotDone)
	return plan.Judged(t.State, k, made), nil
}

// keepEarlier: evidence that no driver has judged yet, because it did not answer then, or a person has
// answered since, is judged now. The reply says that the evidence of this call is not used.
func keepEarlier(t *turn) {
	s := t.Run.Step
	said, ok := plan.EvidenceOf(s)
	if !ok || len(s.Inputs) > 0 || s.Call != nil || s.Withheld != nil {
		return
	}
	why := "Step %d was answered meanwhile, and what this call sent was not used."
	switch said.Provenance {
	case driver.AgentReported:
		why = "The evidence that an earlier call sent for step %d was not judged then; it is judged now, and what this call sent was not used."
	case driver.ClientAttested, driver.LinkHolder:
	default:
		return
	}
	t.Solution = nil
	t.Note = plain.Sentences(t.Note, fmt.Sprintf(why, s.Index))
}

// gate looks up which of the inputs that the driver asks for a person declined before.
func gate(ctx context.Context, t *turn, res driver.AdvanceResult) (plan.Action, error) {
	k := t.Task
	if err := plan.Demanded(t.State, k, res.NeedInput, t.Run.Step.Plan); err != nil {
		return nil, err
	}
	remembered := map[string]bool{}
	for _, in := range res.NeedInput {
		if plan.Gated(t.State, k, in) || input.Of(in.Kind).Internal {
			continue
		}
		no, err := declinedBefore(ctx, t, in)
		if err != nil {
			return nil, err
		}
		remembered[in.ID] = no
	}
	return plan.Needed(t.State, k, res, remembered)
}

// accept proves the step and opens the next one.
func accept(t *turn, a plan.Accept) error {
	accepted, err := plan.Proved(t.State, a, newSalt(), newNonce(t.Run.ID))
	if err != nil {
		return err
	}
	if err := t.apply(accepted); err != nil {
		return err
	}
	// What is left of the submission was for the step that is solved now.
	t.Solution = nil
	t.taken()
	t.Solved = append(t.Solved, present.Solved(*t.Run, *t.Chain, len(t.Run.Proofs)-1))
	return nil
}
