package api

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/fault"
)

// Transport carries calls of tools to a server, or to what replies in its place.
type Transport interface {
	// Call makes one call and returns its reply. The arguments and the reply are
	// JSON objects.
	Call(ctx context.Context, tool Declaration, arguments json.RawMessage) (json.RawMessage, error)
}

// Call makes a call of the tool. A reply that only reports an error is an error.
func (t Tool[Request, Reply]) Call(ctx context.Context, by Transport, in Request) (reply Reply, err error) {
	arguments, err := Encode(in, "")
	if err != nil {
		return reply, fault.Wrap(err, fault.InvalidArgument, "cannot encode the arguments of %s", t.Name)
	}
	raw, err := by.Call(ctx, t.Declaration, arguments)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return reply, fault.New(fault.UnexpectedReply, "cannot read the reply to %s: %v", t.Name, err)
	}
	if step, ok := any(reply).(StepReply); ok && step.refused() {
		var none Reply
		return none, fault.FromReply(raw)
	}
	return reply, nil
}

// refused: the call failed before there was a step to show.
func (r StepReply) refused() bool { return r.ErrorCode != "" && r.CurrentStep.URI == "" }

// The names of the tools.
const (
	ToolBegin  = "kairos_begin"
	ToolNext   = "kairos_next"
	ToolAttest = "kairos_attest"
	ToolDump   = "kairos_dump"
	ToolSpaces = "kairos_spaces"
)

// NewCall is the call with these arguments, which must encode as JSON.
func NewCall(tool string, arguments map[string]any) *NextCall {
	b, err := Encode(arguments, "")
	if err != nil {
		return nil // unreachable: strings, numbers and what was decoded from JSON
	}
	return &NextCall{Tool: tool, Arguments: b}
}

// BeginCall opens a run of the protocol.
func BeginCall(uri string) *NextCall { return NewCall(ToolBegin, map[string]any{"uri": uri}) }

// CallOf is the call that an error advises, if it does.
func CallOf(f *fault.Error) *NextCall {
	if f.NextCall == nil {
		return nil
	}
	return NewCall(f.NextCall.Tool, f.NextCall.Arguments)
}
