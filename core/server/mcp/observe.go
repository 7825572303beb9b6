package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Observer is notified of every tool call. It is called concurrently and must return at
// once.
type Observer interface {
	ToolCalled(ToolCall)
}

// ToolCall is a tool call that has ended.
type ToolCall struct {
	Tool, Transport, Principal, Space string
	Took                              time.Duration
	// In and Out are bytes of the arguments and of the result.
	In, Out int
	// ErrorCode is that of an error result or of a run error, empty after a success.
	ErrorCode string
	// Failed: the result is an error, or there is a JSON-RPC error instead.
	Failed bool
}

// rpcFailed is the ErrorCode of a call that ended in a JSON-RPC error.
const rpcFailed = "RPC_ERROR"

// observed notifies the observer of each call, on every transport.
func observed(observer Observer, h server.ToolHandlerFunc) server.ToolHandlerFunc {
	if observer == nil {
		return h
	}
	return func(ctx context.Context, req mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
		from, started := originOf(ctx), time.Now()
		defer func() { // also after a panic
			c := ToolCall{
				Tool: req.Params.Name, Transport: from.transport, Principal: from.who.Principal, Space: from.who.Space,
				Took: time.Since(started), In: len(req.Params.RawArguments), ErrorCode: rpcFailed, Failed: true,
			}
			if res != nil && err == nil {
				c.Out, c.ErrorCode, c.Failed = size(ctx, res), "", res.IsError
				if n := noteFrom(ctx); n != nil {
					c.ErrorCode = n.errorCode
				}
			}
			observer.ToolCalled(c)
		}()
		return h(ctx, req)
	}
}

// size returns the bytes of a result, without the envelope that every result has.
func size(ctx context.Context, res *mcp.CallToolResult) int {
	bytes := len(res.RequestState)
	if text, ok := res.StructuredContent.(json.RawMessage); ok {
		bytes += len(text)
	}
	for _, c := range res.Content {
		if text, ok := c.(mcp.TextContent); ok {
			bytes += len(text.Text)
		}
	}
	if n := noteFrom(ctx); n != nil {
		for _, r := range n.requests {
			bytes += len(r.Params)
		}
	}
	return bytes
}
