package mcp

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// traced puts the trace of a tool call into its context: the client's, from
// _meta.traceparent, that of the HTTP request, or a new one. The log lines of server
// and drivers about one call share it.
func traced(ctx context.Context, req mcp.CallToolRequest) context.Context {
	if req.Params.Meta != nil {
		if theirs, ok := req.Params.Meta.AdditionalFields["traceparent"].(string); ok {
			if ctx := driver.WithTrace(ctx, theirs); driver.TraceOf(ctx) != "" {
				return ctx
			}
		}
	}
	if driver.TraceOf(ctx) != "" {
		return ctx // of the request that brought the call
	}
	var id [24]byte
	_, _ = rand.Read(id[:]) // never fails
	return driver.WithTrace(ctx, fmt.Sprintf("00-%x-%x-00", id[:16], id[16:]))
}
