package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcp-go decodes each message four times, and the arguments of a tool call once more.
// Here they are decoded once, so mcp-go gets the call without them.

// putAside returns a call of one of our tools without its arguments, and these; false:
// the message is something else, or has more than such a call needs, and mcp-go gets
// all of it.
func (ts *tools) putAside(m rpcMessage) (call, arguments json.RawMessage, ok bool) {
	if *m.Method != string(mcp.MethodToolsCall) || m.JSONRPC != mcp.JSONRPC_VERSION || m.Result != nil {
		return nil, nil, false
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return nil, nil, false
	}
	var name string
	if err := json.Unmarshal(params["name"], &name); err != nil || ts.checks[name] == nil {
		return nil, nil, false
	}
	meta, arguments := params["_meta"], params["arguments"]
	known := 1
	for _, part := range []json.RawMessage{meta, arguments} {
		if part != nil {
			known++
		}
	}
	if arguments == nil || known < len(params) {
		return nil, nil, false
	}
	call = append(call, `{"jsonrpc":"2.0","method":"tools/call","id":`...)
	call = append(call, m.ID...)
	call = append(call, `,"params":{"name":"`...)
	call = append(call, name...)
	if meta != nil {
		call = append(call, `","_meta":`...)
		call = append(call, meta...)
		return append(call, "}}"...), arguments, true
	}
	return append(call, `"}}`...), arguments, true
}

// withArguments gives a call its arguments back.
func withArguments(h server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if n := noteFrom(ctx); n != nil && n.arguments != nil {
			req.Params.RawArguments = n.arguments
		}
		return h(ctx, req)
	}
}
