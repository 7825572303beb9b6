package director

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// advance lets the challenge driver judge the answers so far.
func advance(ctx context.Context, t *turn) (plan.Action, error) {
	k := t.Task
	if k.Free() {
		return plan.JudgeFree(t.State, k), nil
	}
	drv, ok := t.setup.Drivers.Challenge(k.Use)
	if !ok {
		return nil, plan.Unavailable("driver %s, which judges challenges of type %q, is not configured", k.Use, k.Common.Type)
	}
	s := t.Run.Step
	if s.Round >= plan.MaxRounds {
		return nil, plan.Unavailable("driver %s asked for input %d times without a verdict on step %d", k.Use, s.Round, s.Index)
	}
	c, recovering, err := ready(ctx, t, run.Call{Driver: k.Use})
	if err != nil {
		return nil, err
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: k.Challenge, Step: k.Where, Client: t.Caller.Client, Answers: s.Answers, State: s.State, Round: s.Round,
		Approved: s.Approval != nil, IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled,
	})
	t.heard(res.NotDone)
	return plan.Judged(t.State, k, plan.Judging{Call: c, Recovering: recovering, Result: res, Err: err}), nil
}

// keepEarlier: evidence of the agent that no driver has judged yet, because it did not
// answer then, is judged now. The reply says that the evidence of this call is not used.
func keepEarlier(t *turn) {
	s := t.Run.Step
	if said, ok := plan.EvidenceOf(s); !ok || said.Provenance != driver.AgentReported || len(s.Inputs) > 0 || s.Call != nil || s.Withheld != nil {
		return
	}
	t.Solution = nil
	t.Note = plain.Sentences(t.Note, fmt.Sprintf("The evidence that an earlier call sent for step %d was not judged then; it is judged now, "+
		"and what this call sent was not used.", s.Index))
}

// need looks up which of the inputs that the driver asks for a person declined before.
func need(ctx context.Context, t *turn, res driver.AdvanceResult) (plan.Action, error) {
	k := t.Task
	remembered := map[string]bool{}
	for _, in := range res.NeedInput {
		if gated, err := plan.Gated(t.State, k, in); err != nil || gated || input.Of(in.Kind).Internal {
			continue
		}
		no, err := gates(ctx, t, in)
		if err != nil {
			return nil, err
		}
		remembered[in.ID] = no
	}
	return plan.Needed(t.State, k, res, remembered)
}

// prove proves the step and opens the next one.
func prove(t *turn, a plan.Accept) error {
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
