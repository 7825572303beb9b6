package director

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
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
	h, release := e.hold()
	defer release()
	return runs.Again(func() (DecideReply, error) { return h.decide(ctx, c, in) })
}

func (e held) decide(ctx context.Context, c access.Caller, in DecideInput) (DecideReply, error) {
	if in.By == "" || in.Reason == "" {
		return DecideReply{}, fault.New(fault.InvalidArgument, "a decision needs who makes it and why")
	}
	t, err := e.resume(ctx, c, in.Run)
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
		if err := t.verdicts.answerDecided(ctx, call, in, &ev); err != nil {
			return DecideReply{}, err
		}
	}
	if err := t.apply(ev); err != nil {
		return DecideReply{}, err
	}
	if in.Happened && call.Input == "" {
		if err := t.verdicts.acceptDecided(ctx, call, in); err != nil {
			return DecideReply{}, err
		}
	}
	if err := t.save(ctx); err != nil {
		return DecideReply{}, err
	}
	return DecideReply{RunID: string(in.Run), Driver: call.Driver, Step: step, Attempt: call.Attempt, Happened: in.Happened}, nil
}
