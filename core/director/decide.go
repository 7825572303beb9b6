package director

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// DecideInput is what a person found out about a driver's call whose outcome is
// unknown.
type DecideInput struct {
	Run      run.ID
	Happened bool
	// Result is what came of it, if it happened: the answer that was obtained,
	// or the output of the step.
	Result json.RawMessage
	By     string // who says so
	Reason string
}

// DecideReply says what was decided.
type DecideReply struct {
	RunID    string `json:"run_id"`
	Driver   string `json:"driver"`
	Step     int    `json:"step"`
	Attempt  int    `json:"attempt"`
	Happened bool   `json:"happened"`
}

// Decide ends the wait for a driver's call whose outcome is unknown. If the call
// did not happen, the next kairos_next makes another attempt. If it happened, the
// result that the person gives takes the place of the lost one; nobody but them
// vouches for it, so it counts as reported.
func (e *Engine) Decide(ctx context.Context, c access.Caller, in DecideInput) (DecideReply, error) {
	return use(e, func(u useCase) (DecideReply, error) { return u.decide(ctx, c, in) })
}

func (u useCase) decide(ctx context.Context, c access.Caller, in DecideInput) (DecideReply, error) {
	if in.By == "" || in.Reason == "" {
		return DecideReply{}, fault.New(fault.InvalidArgument, "a decision needs who makes it and why")
	}
	t, err := u.oversee(ctx, c, in.Run)
	if err != nil {
		return DecideReply{}, err
	}
	open := t.Run.Step.Call
	if !t.Run.State.Live() || open == nil || !open.Acts {
		return DecideReply{}, fault.New(fault.InvalidArgument, "run %s waits for no driver's call whose outcome is unknown: there is nothing to decide", in.Run)
	}
	call, step := *open, t.Run.Step.Index
	ev := run.Event{
		Kind: run.Decided, Input: call.Input, Via: call.Driver, Reason: plain.Clip(in.Reason, 2000),
		Decision: &run.Decision{Happened: in.Happened, By: plain.Clip(in.By, 200)},
	}
	if in.Happened && call.Input != "" {
		if err := answerDecided(ctx, t, call, in, &ev); err != nil {
			return DecideReply{}, err
		}
	}
	if err := t.apply(ev); err != nil {
		return DecideReply{}, err
	}
	if in.Happened && call.Input == "" {
		if err := acceptDecided(ctx, t, call, in); err != nil {
			return DecideReply{}, err
		}
	}
	if err := t.save(ctx); err != nil {
		return DecideReply{}, err
	}
	return DecideReply{RunID: string(in.Run), Driver: call.Driver, Step: step, Attempt: call.Attempt, Happened: in.Happened}, nil
}

// answerDecided makes the person's result the answer that the call would have
// obtained.
func answerDecided(ctx context.Context, t *turn, call run.Call, in DecideInput, ev *run.Event) error {
	k, asked, err := obtained(ctx, t, call.Input)
	if err != nil {
		return err
	}
	if err := plan.Decidable(t.State, k); err != nil {
		return err
	}
	if input.Of(asked.Kind).Approves {
		return fault.New(fault.InvalidArgument, "an approval cannot be decided for the person who was asked: say that it did not happen, and they are asked again")
	}
	if len(in.Result) == 0 || !json.Valid(in.Result) {
		return fault.New(fault.InvalidArgument, "what driver %s obtained is needed as a result in JSON: %s", call.Driver, asked.Description).With("schema", asked.Schema)
	}
	if len(asked.Schema) > 0 {
		if problems := schema.Validate(asked.Schema, in.Result); len(problems) > 0 {
			return fault.New(fault.InvalidArgument, "the result is not what driver %s would have obtained: %s", call.Driver, input.Describe(problems))
		}
	}
	ev.Answer = &driver.Answer{InputID: asked.ID, Value: in.Result, Provenance: driver.AgentReported, Via: call.Driver}
	return nil
}

// acceptDecided proves the step on the person's word that the driver's act
// happened.
func acceptDecided(ctx context.Context, t *turn, call run.Call, in DecideInput) error {
	k, err := t.open(ctx)
	if err != nil {
		return err
	}
	if err := plan.Decidable(t.State, k); err != nil {
		return err
	}
	evidence, ok := plan.EvidenceOf(t.Run.Step)
	if !ok {
		return fault.New(fault.InvalidArgument, "step %d has no evidence yet, so it cannot be accepted; say that it did not happen, or end the run", t.Run.Step.Index)
	}
	evidence.Provenance = driver.AgentReported
	proof, err := json.Marshal(map[string]any{"decided": map[string]any{"happened": true, "by": in.By, "reason": in.Reason, "attempt": call.Attempt}})
	if err != nil {
		return fmt.Errorf("encode the decision: %w", err)
	}
	a := driver.Accepted{Proof: proof, Output: in.Result}
	if len(a.Output) == 0 {
		a.Output = json.RawMessage("null")
	}
	if !json.Valid(a.Output) {
		return fault.New(fault.InvalidArgument, "the result is not JSON")
	}
	if problems := input.OutputProblems(k, true, a.Output); len(problems) > 0 {
		return fault.New(fault.InvalidArgument, "the result does not match the step's output_schema: %s", input.Describe(problems))
	}
	proved := plan.Accept{Task: k, Judge: plan.Ref(t.State, call.Driver), Proof: a.Proof, Output: a.Output, Evidence: evidence}
	if k.Common.Judge != nil {
		_, err := t.act(ctx, plan.Withhold(t.State, proved))
		return err
	}
	return accept(t, proved)
}

// UndeclineInput names the run whose declines are taken back.
type UndeclineInput struct {
	Run    run.ID
	By     string // who takes them back, for the record
	Reason string
}

// UndeclineReply lists what was taken back.
type UndeclineReply struct {
	RunID    string      `json:"run_id"`
	Declines []TakenBack `json:"declines"`
	// Open: the run is still open, so that the person can be asked again.
	Open bool `json:"open"`
}

// TakenBack is a decline that does not count any more.
type TakenBack struct {
	RunID string    `json:"run_id"`
	Title string    `json:"title"`
	Step  int       `json:"step"`
	Label string    `json:"label"`
	Via   string    `json:"via"`
	At    time.Time `json:"at"`
}

// Undecline takes back what people declined in the run, and what keeps its open step from
// being approved because it was declined in another run. It approves nothing: a person is
// asked again.
func (e *Engine) Undecline(ctx context.Context, c access.Caller, in UndeclineInput) (UndeclineReply, error) {
	return use(e, func(u useCase) (UndeclineReply, error) { return u.undecline(ctx, c, in) })
}

func (u useCase) undecline(ctx context.Context, c access.Caller, in UndeclineInput) (UndeclineReply, error) {
	if in.By == "" {
		return UndeclineReply{}, fault.New(fault.InvalidArgument, "a decline is taken back by somebody: by is missing")
	}
	t, err := u.oversee(ctx, c, in.Run)
	if err != nil {
		return UndeclineReply{}, err
	}
	reply := UndeclineReply{RunID: string(in.Run), Open: t.Run.State.Live(), Declines: []TakenBack{}}
	action, err := plan.OpenAction(t.State)
	if err != nil {
		return UndeclineReply{}, err
	}
	counting, err := u.e.parts.Declines.Counting(ctx, t.Run.Principal, t.Run.Space, in.Run, action)
	if err != nil {
		return UndeclineReply{}, err
	}
	for _, d := range counting {
		reply.Declines = append(reply.Declines, TakenBack{RunID: string(d.Run), Title: d.Title, Step: d.Step, Label: d.Label, Via: d.Via, At: d.At})
	}
	own := plan.StandingDecline(t.State)
	if own != nil && len(counting) == 0 {
		reply.Declines = append(reply.Declines, TakenBack{
			RunID: string(in.Run), Title: t.Chain.Title, Step: t.Run.Step.Index, Label: plan.OpenStep(t.State).Heading(), Via: own.Via, At: own.At,
		})
	}
	if len(reply.Declines) == 0 {
		return UndeclineReply{}, fault.New(fault.InvalidArgument, "nothing that counts was declined in run %s: there is nothing to take back", in.Run)
	}
	if err := t.apply(run.Event{Kind: run.Undeclined, By: plain.Clip(in.By, 200), Reason: plain.Clip(in.Reason, 2000)}); err != nil {
		return UndeclineReply{}, err
	}
	if err := t.save(ctx); err != nil {
		return UndeclineReply{}, err
	}
	// If this fails, the command finds the same declines again.
	return reply, u.e.parts.Declines.TakeBack(ctx, counting)
}
