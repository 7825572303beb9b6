package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// replied is the result of begin and next. A run error is a normal reply.
func replied(r *api.StepReply) (*mcp.CallToolResult, error) { return result(r, "") }

// result carries a reply as structured content and as the same JSON in text, which
// most clients read. A non-empty indent formats the text.
func result(reply any, indent string) (*mcp.CallToolResult, error) {
	text, err := api.Encode(reply, indent)
	if err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.TextContent{Type: "text", Text: string(text)}},
		StructuredContent: json.RawMessage(text),
	}, nil
}

// failed converts an error for the client: to a result that is an error, because models
// read results, or to a JSON-RPC error for a broken exchange and for calls without a
// waiting client.
func failed(ctx context.Context, log *slog.Logger, req mcp.CallToolRequest, err error) (*mcp.CallToolResult, error) {
	var undecoded *toolset.ArgumentsError
	if errors.As(err, &undecoded) {
		return nil, invalidParams(fmt.Errorf("arguments: %w", fields.Plain(undecoded.Unwrap())))
	}
	var rpc *rpcError
	if errors.As(err, &rpc) {
		return nil, rpc
	}
	if errors.Is(err, errGone) || ctx.Err() != nil {
		return nil, &rpcError{code: mcp.INTERNAL_ERROR, message: "the call was cancelled or its connection ended"}
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == fault.Internal {
		log.ErrorContext(ctx, "tool call failed", "tool", req.Params.Name, "error", err)
		f = fault.New(fault.Internal, "Internal error. Nothing was decided; the server's log has the cause.")
	} else if f.Unwrap() != nil {
		log.WarnContext(ctx, "tool call refused", "tool", req.Params.Name, "error", err)
	}
	noteCode(ctx, string(f.Code))
	return errorResult(req, f)
}

// errorResult returns the result of an error. The contract names the code of mint
// differently; its result has both names.
func errorResult(req mcp.CallToolRequest, f *fault.Error) (*mcp.CallToolResult, error) {
	fields := f.Reply(tried(req))
	if id := req.GetString("run_id", ""); id != "" && len(id) <= maxEcho && fields["run_id"] == nil {
		fields["run_id"] = id
	}
	if req.Params.Name == api.Mint.Name {
		fields["error"] = f.Code
	}
	res, err := result(fields, "")
	if err != nil {
		return nil, err
	}
	res.IsError = true
	return res, nil
}

// maxEcho limits what an error repeats of the arguments, in bytes; a URI has 50.
const maxEcho = 200

// tried names the call that failed.
func tried(req mcp.CallToolRequest) string {
	var about struct {
		URI  string   `json:"uri"`
		URIs []string `json:"uris"`
	}
	// The message already names arguments that cannot be read.
	_ = json.Unmarshal(object(req.Params.RawArguments), &about)
	uri := about.URI
	if len(about.URIs) > 0 {
		uri = about.URIs[0]
	}
	if uri == "" || len(uri) > maxEcho {
		return req.Params.Name
	}
	return req.Params.Name + " with " + uri
}
