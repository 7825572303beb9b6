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

// mostInput is the size of the forms of inputs that a call of kairos_begin shows, in bytes:
// a search has several of them. Without one, the reply to kairos_begin names what is missing.
const mostInput = 2 << 10

// BeginCall opens a run of the protocol with these inputs (a schema, or nil): it has a
// placeholder for each that is required.
func BeginCall(uri string, inputs json.RawMessage) *NextCall {
	arguments := map[string]any{"uri": uri}
	if form := formOfInput(inputs); form != "" {
		arguments["input"] = json.RawMessage(form)
	}
	return NewCall(ToolBegin, arguments)
}

// BeginAction is BeginCall as a sentence.
func BeginAction(uri string, inputs json.RawMessage) string {
	action := "call " + ToolBegin + " with " + uri
	if form := formOfInput(inputs); form != "" {
		action += " and input " + form
	}
	return action
}

// formOfInput is empty if nothing is required or the form is too large to be shown.
func formOfInput(inputs json.RawMessage) string {
	form, err := Encode(InputForm(inputs, RequiredInputs(inputs)), "")
	if err != nil || string(form) == "{}" || len(form) > mostInput {
		return ""
	}
	return string(form)
}

// CallOf is the call that an error advises, if it does.
func CallOf(f *fault.Error) *NextCall {
	if f.NextCall == nil {
		return nil
	}
	return NewCall(f.NextCall.Tool, f.NextCall.Arguments)
}
