package director

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// viaAgent takes the input from the submitted solution, or shows it to the agent.
func viaAgent(ctx context.Context, t *turn, k *input.Task, in driver.Input, r decision.Route) (plan.Action, error) {
	drv, ok := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	if !ok {
		return nil, plan.Unavailable("driver %s is not configured", r.Via)
	}
	shown, err := shownToAgent(ctx, t, drv, r.Via, k, in)
	if err != nil {
		return nil, err
	}
	s := t.Solution
	if s == nil || !s.Supplied() {
		if t.Run.Step.Index == t.Target {
			return plan.Reply{StepReply: plan.LeftOutReply(t.State, k, in, shown, plan.NothingGiven)}, nil
		}
		return plan.Reply{StepReply: plan.StepReply(t.State, k, in, shown)}, nil
	}
	if s.Type != shown.Type {
		return plan.Refuse(fault.TypeMismatch, fmt.Sprintf("the open challenge is of type %q, the solution of type %q", shown.Type, s.Type)), nil
	}
	t.Solution = nil
	if left := s.Unfilled(in); len(left) > 0 {
		return notFilledIn(ctx, t, drv, r.Via, k, in, left)
	}
	c, err := keyed(t, run.Call{Input: in.ID, Driver: r.Via})
	if err != nil {
		return nil, err
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: in, Step: k.Where, Client: t.Caller.Client, Raw: s.Raw, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	t.tick()
	switch {
	case err != nil:
		return nil, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not read the solution, the step stays open: %s", r.Via, plain.Clip(err.Error(), 600))
	case res.Answer != nil:
		// This came from the agent, even if the driver claims more.
		res.Answer.Provenance = driver.AgentReported
		return plan.Supplied(t.State, k, in, r, *res.Answer), nil
	case res.Declined != nil:
		return plan.Decline(in, r.Via, res.Declined.Reason, 0), nil
	case res.Missing != nil:
		return plan.Reply{StepReply: plan.LeftOutReply(t.State, k, in, shown, plan.NothingGiven)}, nil
	case res.Invalid != nil:
		return plan.Refuse(fault.MissingField, "the solution is not an answer: "+input.Describe(res.Invalid.Diagnostics)), nil
	case res.Unavailable != nil:
		return nil, plan.Unavailable("driver %s cannot read the solution: %s", r.Via, res.Unavailable.Reason)
	}
	return nil, plan.Unavailable("driver %s gave no outcome", r.Via)
}

// notFilledIn: the agent sent back placeholders of next_call. An omission
// is missing, not wrong.
func notFilledIn(ctx context.Context, t *turn, drv driver.Capability, via string, k *input.Task, in driver.Input, left []string) (plan.Action, error) {
	shown, err := shownToAgent(ctx, t, drv, via, k, in)
	if err != nil {
		return nil, err
	}
	return plan.Reply{StepReply: plan.LeftOutReply(t.State, k, in, shown, fmt.Sprintf("Solution is missing: %s still hold the placeholders of next_call. "+
		"Replace each by what really happened, and leave out what is optional and not known", plain.Clip(strings.Join(left, ", "), 500)))}, nil
}

// shownToAgent is the challenge as the agent sees it. For evidence that is the
// step's own; anything else only the driver can word.
func shownToAgent(ctx context.Context, t *turn, drv driver.Capability, via string, k *input.Task, in driver.Input) (driver.AgentChallenge, error) {
	if input.Of(in.Kind).Evidence && t.Solution.Supplied() {
		return driver.AgentChallenge{Type: k.Common.Type, Description: in.Description, Display: in.Display}, nil
	}
	c, err := keyed(t, run.Call{Input: in.ID, Driver: via})
	if err != nil {
		return driver.AgentChallenge{}, err
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: in, Step: k.Where, Client: t.Caller.Client, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	switch {
	case err != nil:
		return driver.AgentChallenge{}, fault.Wrap(err, fault.DriverUnavailable, "the driver that shows challenges to agents failed, the step stays open: %s", plain.Clip(err.Error(), 600))
	case res.AgentChallenge == nil:
		return driver.AgentChallenge{}, plan.Unavailable("the agent route did not show input %q of step %d", in.ID, k.Where.Index)
	}
	return *res.AgentChallenge, nil
}
