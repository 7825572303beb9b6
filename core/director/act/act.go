// Package act does what waits: it calls drivers for a run. It records nothing, and decides
// nothing: what a driver's answer leads to is left to a rule of core/director/plan.
package act

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Drivers calls the drivers that a use case holds.
type Drivers struct {
	Finder  drivers.Finder
	Secrets secrets.Secrets
}

// Keyed is the call with its attempt and its idempotency key. A pure driver gets none.
func (d Drivers) Keyed(s *plan.State, c run.Call) (run.Call, error) {
	c.Attempt = s.Run.Step.Attempt(c.Input)
	desc, _, _ := d.Finder.Describe(c.Driver)
	if desc.Effect != driver.EffectReads && desc.Effect != driver.EffectChanges {
		return c, nil
	}
	round := 0
	if c.Input == "" {
		round = s.Run.Step.Round
	}
	var err error
	c.Key, err = d.Secrets.CallKey(s.Run.ID, s.Run.Step.Index, c.Driver, c.Input, round, c.Attempt)
	return c, err
}

// Judge lets the challenge driver judge the answers so far.
func (d Drivers) Judge(ctx context.Context, s *plan.State, c run.Call, recovering bool) plan.Judging {
	made, step := plan.Judging{Made: plan.Made{Call: c, Recovering: recovering}}, s.Run.Step
	drv, ok := d.Finder.Challenge(c.Driver)
	if !ok {
		made.Err = plan.Unavailable("driver %s is not configured", c.Driver)
		return made
	}
	made.Result, made.Err = drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: s.Task.Challenge, Step: s.Task.Where, Client: s.Caller.Client, Answers: step.Answers, State: step.State, Round: step.Round,
		Approved: step.Approval != nil, IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled,
	})
	return made
}

// Render has the capability driver put the question, or answer it. The call, its input and
// its link are in made already.
func (d Drivers) Render(ctx context.Context, s *plan.State, a plan.Render, made plan.Rendering) (plan.Rendering, error) {
	drv, ok := d.Finder.Capability(a.Route.Via, a.Route.CallTimeout)
	if !ok {
		return made, plan.Unavailable("driver %s is not configured", a.Route.Via)
	}
	address, where, err := d.addresses(s, a.Task, made.Link)
	if err != nil {
		return made, err
	}
	made.Input.Description = strings.ReplaceAll(made.Input.Description, input.ReadMark, where)
	made.Result, made.Err = drv.Render(ctx, driver.RenderRequest{
		Input: made.Input, Step: a.Task.Where, Client: s.Caller.Client, Links: driver.Links{Approval: address}, Diagnostics: a.Diagnostics,
		IdempotencyKey: made.Call.Key, Attempt: made.Call.Attempt, Recover: made.Recovering, Cancel: made.Call.Cancelled, Plan: plan.Stated(s, a.Route.Via),
		How: plan.HowIn(s, a.Task, made.Input, a.Route.Via),
	})
	if made.Err == nil {
		made.Err, err = d.conceal(s.Run.ID, made.Link, &made.Result)
	}
	return made, err
}

// addresses are where a person answers with the link, empty if nobody may, and where they
// read the whole of what is asked.
func (d Drivers) addresses(s *plan.State, k *input.Task, link *run.ApprovalLink) (answer, read string, err error) {
	if link != nil && input.ByID(cmp.Or(link.Input, input.ApprovalKind.Name)).Approves && plan.Answerable(s, k) {
		if answer, err = d.Secrets.Reveal(s.Run.ID, link, plan.MarkedURL(s, link)); err != nil {
			return "", "", err
		}
	}
	read, err = d.Secrets.Reveal(s.Run.ID, link, plan.WhereToRead(s, link))
	return answer, read, err
}

// conceal makes what a driver wrote fit to be shown and recorded. The failure is its own.
func (d Drivers) conceal(id run.ID, link *run.ApprovalLink, res *driver.RenderResult) (failure, err error) {
	if e := res.Elsewhere; e != nil {
		said := *e
		if said.Message, err = d.Secrets.Conceal(id, link, e.Message); err != nil {
			return nil, err
		}
		res.Elsewhere = &said
	}
	if res.ClientRequest == nil {
		return nil, nil
	}
	req, failure := readable(*res.ClientRequest)
	if failure != nil {
		return fmt.Errorf("its request is not sound JSON: %w", failure), nil
	}
	params, err := d.Secrets.Conceal(id, link, string(req.Params))
	req.Params = json.RawMessage(params)
	res.ClientRequest = &req
	return nil, err
}

// readable is the request with the texts that a person reads of it fit to be
// shown, whichever driver wrote them. Values stay as they are: the answer is
// compared with them, and schema.Flat refuses those with hidden characters.
func readable(req driver.ClientRequest) (driver.ClientRequest, error) {
	if req.Method != plan.MethodElicitation {
		return req, nil
	}
	var err error
	req.Params, err = protocol.EditStrings(req.Params, func(pointer, text string) string {
		switch {
		case pointer == "/message":
			return plain.Text(text)
		case path.Base(pointer) == "title", path.Base(pointer) == "description", path.Base(path.Dir(pointer)) == "enumNames":
			return plain.Line(text)
		}
		return text
	})
	return req, err
}

// Interpret lets the capability driver that asked, or what has its name now, read the
// client's reply.
func (d Drivers) Interpret(ctx context.Context, s *plan.State, k *input.Task, q run.Question, reply json.RawMessage, failed *driver.ClientError) plan.Reading {
	drv, ok := d.Finder.Capability(q.Via, plan.RouteOf(s, q).CallTimeout)
	if !ok {
		return plan.Reading{Result: driver.CannotInterpret("the driver is not configured any more"), ClientError: failed}
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: q.Input, Step: k.Where, Client: q.Client, Raw: reply, ClientError: failed, IdempotencyKey: q.Key, Attempt: q.Attempt,
		How: q.How,
	})
	if res.Answer != nil && input.Of(q.Input.Kind).Approves && plan.SentToAddress(q.Ask) {
		// Such a question shows an address and no form: nobody saw what an approval would be for.
		res = driver.LeftOut("the client was asked to open the approval page; the answer comes from there")
	}
	return plan.Reading{Result: res, Err: err, ClientError: failed}
}

// Preview asks a driver what it would do, before it does it.
func (d Drivers) Preview(ctx context.Context, s *plan.State, a plan.Preview) plan.Action {
	drv, _ := d.Finder.Capability(a.Route.Via, a.Route.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return plan.Close(s, a.Input.ID, a.Route, decision.Errored, "it has no Preview, which the feature "+driver.FeaturePreview+" demands", 0)
	}
	req := driver.PreviewRequest{Input: a.Input, Step: a.Task.Where, Client: s.Caller.Client}
	res, err := previewer.Preview(ctx, req)
	if given := s.Solution; err == nil && res.Propose != nil && given.Supplied() {
		req.Proposal = given.Work()
		res, err = previewer.Preview(ctx, req)
	}
	return plan.Look(func(s *plan.State) plan.Action { return plan.Previewed(s, a, req.Proposal, res, err) })
}

// Read takes the input from the submitted solution, or shows it to the agent.
func (d Drivers) Read(ctx context.Context, s *plan.State, a plan.Read) (plan.Action, error) {
	shown, err := d.Shown(ctx, s, a)
	if err != nil {
		return nil, err
	}
	if action := plan.Unsubmitted(s, a, shown); action != nil {
		return action, nil
	}
	if left := s.Solution.Unfilled(a.Input); len(left) > 0 {
		if shown, err = d.worded(ctx, s, a); err != nil {
			return nil, err
		}
		return plan.Apply{Used: true, Then: plan.Look(func(s *plan.State) plan.Action { return plan.NotFilledIn(s, a, shown, left) })}, nil
	}
	drv, c, err := d.ofAgent(s, a)
	if err != nil {
		return nil, err
	}
	read, err := s.Solution.ReadFor(a.Input)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(read, s.Solution.Sent) {
		a.Sent = s.Solution.Sent
	}
	res, err := drv.Interpret(ctx, driver.InterpretRequest{
		Input: a.Input, Step: a.Task.Where, Client: s.Caller.Client, Raw: read, IdempotencyKey: c.Key, Attempt: c.Attempt,
	})
	return plan.Apply{Used: true, Then: plan.Look(func(s *plan.State) plan.Action {
		return plan.Submitted(s, a, shown, plan.Reading{Result: res, Err: err})
	})}, nil
}

// ofAgent is the driver that shows inputs to agents, and a call of it.
func (d Drivers) ofAgent(s *plan.State, a plan.Read) (driver.Capability, run.Call, error) {
	drv, ok := d.Finder.Capability(a.Route.Via, a.Route.CallTimeout)
	if !ok {
		return nil, run.Call{}, plan.Unavailable("driver %s is not configured", a.Route.Via)
	}
	c, err := d.Keyed(s, run.Call{Input: a.Input.ID, Driver: a.Route.Via})
	return drv, c, err
}

// Shown is the challenge as the agent sees it. For evidence that is the step's own;
// anything else only the driver can word.
func (d Drivers) Shown(ctx context.Context, s *plan.State, a plan.Read) (driver.AgentChallenge, error) {
	if input.Of(a.Input.Kind).Evidence && s.Solution.Supplied() {
		return driver.AgentChallenge{Type: a.Task.Common.Type, Description: a.Input.Description, Display: a.Input.Display}, nil
	}
	return d.worded(ctx, s, a)
}

func (d Drivers) worded(ctx context.Context, s *plan.State, a plan.Read) (driver.AgentChallenge, error) {
	drv, c, err := d.ofAgent(s, a)
	if err != nil {
		return driver.AgentChallenge{}, err
	}
	res, err := drv.Render(ctx, driver.RenderRequest{
		Input: a.Input, Step: a.Task.Where, Client: s.Caller.Client, IdempotencyKey: c.Key, Attempt: c.Attempt, How: plan.HowIn(s, a.Task, a.Input, a.Route.Via),
	})
	switch {
	case err != nil:
		return driver.AgentChallenge{}, fault.Wrap(err, fault.DriverUnavailable, "the driver that shows challenges to agents failed, the step stays open: %s", plain.Clip(err.Error(), 600))
	case res.AgentChallenge == nil:
		return driver.AgentChallenge{}, plan.Unavailable("the agent route did not show input %q of step %d", a.Input.ID, a.Task.Where.Index)
	}
	return *res.AgentChallenge, nil
}
