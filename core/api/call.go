package api

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/fault"
)

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
	b, err := json.Marshal(arguments)
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
