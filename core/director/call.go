package director

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// keyLabel separates this use of the server's key from any other.
const keyLabel = "kairos idempotency key 1"

// callKey returns the key that idempotency keys are made with.
func callKey(secrets func() ([][32]byte, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		if secrets != nil {
			all, err := secrets()
			if err == nil && len(all) == 0 {
				err = errors.New("there is no state key")
			}
			if err != nil {
				return nil, err
			}
			key = all[0]
		}
		return hkdf.Key(sha256.New, key[:], nil, keyLabel, 32)
	}
}

// keyed is the call with its attempt and its idempotency key. The key is a keyed
// hash, so that it reveals no id. A pure driver gets none.
func keyed(t *turn, c run.Call) (run.Call, error) {
	c.Attempt = t.Run.Step.Attempt(c.Input)
	desc, _, _ := t.e.Drivers.Describe(c.Driver)
	if desc.Effect != driver.EffectReads && desc.Effect != driver.EffectEffects {
		return c, nil
	}
	key, err := t.e.callKey()
	if err != nil {
		return c, fmt.Errorf("make an idempotency key: %w", err)
	}
	round := 0
	if c.Input == "" {
		round = t.Run.Step.Round
	}
	b, err := json.Marshal([]any{t.Run.ID, t.Run.Step.Index, c.Driver, c.Input, round, c.Attempt})
	if err != nil {
		return c, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	c.Key = base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	return c, nil
}

// ready makes a call ready to be made, or returns the open call if it is the same
// one. A call that may act is stored before it is made, so that whatever happens
// it is never made a second time: recovering says that its driver is to be asked
// what came of it instead.
func ready(ctx context.Context, t *turn, c run.Call) (_ run.Call, recovering bool, err error) {
	desc, _, _ := t.e.Drivers.Describe(c.Driver)
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
		*t.e.refused = *f
	}
	return c, false, nil
}

// maxNotDone is how often one use case makes another attempt after a driver said
// that the one before did nothing.
const maxNotDone = 1

// lost deals with a call that may have acted and came to no outcome, and reports
// whether it was one. The driver is asked next, once.
func lost(t *turn, c run.Call, recovering bool, l plan.Deferral, failure error) (bool, error) {
	switch {
	case l.NotDone != nil && c.Cancelled:
		return true, cancelled(t, l.NotDone.Reason)
	case !c.Acts:
		return false, nil
	case failure != nil && !recovering && notCalled(failure):
		return false, settleCall(t, "it was not called: "+failure.Error())
	case failure != nil && recovering:
		return true, unsettle(t, "it was asked what came of the call: "+failure.Error(), recovering)
	case failure != nil:
		return true, unsettle(t, failure.Error(), recovering)
	case l.Unknown != nil:
		return true, unsettle(t, l.Unknown.Reason, recovering)
	case l.NotDone != nil:
		if t.notDone++; t.notDone > maxNotDone {
			return true, errors.Join(settleCall(t, "not done: "+l.NotDone.Reason), plan.Unavailable("driver %s was called for step %d and did nothing: %s. Nothing is lost",
				c.Driver, t.Run.Step.Index, plain.Clip(l.NotDone.Reason, 500)))
		}
		return true, settleCall(t, "not done: "+l.NotDone.Reason)
	}
	return false, nil
}

// notCalled reports whether an error says that the driver was never reached.
func notCalled(err error) bool {
	var e interface{ NotCalled() bool }
	return errors.As(err, &e) && e.NotCalled()
}

// unsettle records why the outcome of the open call is not known. The error is
// nil if its driver can be asked and was not yet.
func unsettle(t *turn, why string, asked bool) error {
	c := t.Run.Step.Call
	why = plain.Clip(why, 600)
	if c.Unknown != why {
		if err := t.apply(run.Event{Kind: run.Unsettled, Input: c.Input, Via: c.Driver, Reason: why}); err != nil {
			return err
		}
	}
	desc, _, _ := t.e.Drivers.Describe(c.Driver)
	if !asked && desc.Has(driver.FeatureRecover) {
		return nil
	}
	return plan.OutcomeUnknown(t.State)
}

// follow asks the driver of the open call again.
func follow(ctx context.Context, t *turn) (plan.Action, error) {
	c := *t.Run.Step.Call
	t.Trying = c.Driver
	if c.Input == "" {
		k, err := t.open(ctx)
		if err != nil {
			return nil, err
		}
		if c.Acts && !plan.ReadsState(t.State, c.Driver) {
			return nil, unsettle(t, "another version of the driver kept a state that this one does not read", true)
		}
		if over := plan.StartOver(t.State); over != nil {
			return over, nil
		}
		return advance(ctx, t, k)
	}
	q := run.Question{Via: c.Driver, Route: c.Route, Path: c.Path, Asked: 1}
	desc, _, _ := t.e.Drivers.Describe(c.Driver)
	q.Human = desc.Has(driver.FeatureHuman)
	var k *input.Task
	var err error
	if k, q.Input, err = obtained(ctx, t, c.Input); err != nil {
		return nil, err
	}
	q.Phrase = plan.PhraseIn(t.State, k, q.Input)
	beginRoute(t, c.Input, c.At)
	return plan.Call{Kind: plan.Render, Task: k, Question: &q, Route: plan.RouteOf(t.State, q)}, nil
}

// obtained is the input that the open call obtains, as it was asked for.
func obtained(ctx context.Context, t *turn, id string) (*input.Task, driver.Input, error) {
	switch kind := input.ByID(id); {
	case kind.Optional:
		in, _, err := offerQuestion(ctx, t)
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

// settleCall ends the open call, if there is one, with an outcome that is not recorded
// in another way.
func settleCall(t *turn, outcome string) error {
	c := t.Run.Step.Call
	if c == nil {
		return nil
	}
	return t.apply(run.Event{Kind: run.Settled, Input: c.Input, Via: c.Driver, Reason: outcome})
}

// deferCall records that the outcome of a call is pending, and replies so. What
// the driver repeats is not recorded again.
func deferCall(t *turn, c run.Call, p driver.Pending, state driver.State) (plan.Action, error) {
	p.Reason, p.Message = plain.Clip(p.Reason, 500), plain.Clip(p.Message, 1000)
	if p.Progress != nil {
		p.Progress = new(float64(int(*p.Progress*100)) / 100)
	}
	now := t.e.opt.Clock.Now()
	before := t.Run.Step.Call
	said := p
	said.RetryAfter = 0
	news := before == nil || before.Pending == nil || !reflect.DeepEqual(*before.Pending, said) || !reflect.DeepEqual(state, t.Run.Step.State)
	c.At = cmp.Or(c.At, now)
	c.Pending, c.RetryAt, c.Unknown = &said, now.Add(plan.RetryAfter(p)), ""
	if news {
		if err := t.apply(run.Event{Kind: run.Deferred, Input: c.Input, Via: c.Driver, Call: &c, State: state, Reason: p.Reason}); err != nil {
			return nil, err
		}
	}
	return plan.Wait{Call: &c}, nil
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
	h, release := e.hold()
	defer release()
	return runs.Again(func() (Round, error) {
		t, err := h.resume(ctx, c, l.Run)
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
