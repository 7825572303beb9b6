package director

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// viaAgent takes the input from the submitted solution, or shows it to the agent.
func viaAgent(ctx context.Context, t *turn, a plan.Read) (plan.Action, error) {
	k, in, via := a.Task, a.Input, a.Route.Via
	drv, ok := t.setup.Drivers.Capability(via, a.Route.CallTimeout)
	if !ok {
		return nil, plan.Unavailable("driver %s is not configured", via)
	}
	shown, err := shownToAgent(ctx, t, drv, via, k, in)
	if err != nil {
		return nil, err
	}
	if action := plan.Unsubmitted(t.State, a, shown); action != nil {
		return action, nil
	}
	s := t.Solution
	t.Solution = nil
	if left := s.Unfilled(in); len(left) > 0 {
		return notFilledIn(ctx, t, drv, via, k, in, left)
	}
	c, err := keyed(t, run.Call{Input: in.ID, Driver: via})
	if err != nil {
		return nil, err
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: in, Step: k.Where, Client: t.Caller.Client, Raw: s.Raw, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	t.tick()
	return plan.Submitted(t.State, a, shown, plan.Reading{Result: res, Err: err}), nil
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
