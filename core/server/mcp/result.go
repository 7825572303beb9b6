package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// result is the result with a reply. A run error is a normal reply.
func result(reply any) (*mcp.CallToolResult, error) {
	text, err := api.EncodeReply(reply)
	if err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return carrying(text), nil
}

// carrying is a result with structured content, and with the same JSON in text, which
// most clients read; a long text is set out.
func carrying(reply []byte) *mcp.CallToolResult {
	reply = valid(reply) // JSON of a driver is passed on as it is
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.TextContent{Type: "text", Text: string(api.SetOut(reply))}},
		StructuredContent: json.RawMessage(reply),
	}
}

func valid(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))
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
	tried, id := about(req)
	fields := f.Reply(tried)
	if id != "" && len(id) <= maxEcho && fields["run_id"] == nil {
		fields["run_id"] = id
	}
	if req.Params.Name == api.Mint.Name {
		fields["error"] = f.Code
	}
	res, err := result(fields)
	if err != nil {
		return nil, err
	}
	res.IsError = true
	return res, nil
}

// maxEcho limits what an error repeats of the arguments, in bytes; a URI has 50.
const maxEcho = 200

// about names the call that failed and the run that it names.
func about(req mcp.CallToolRequest) (tried, run string) {
	var named struct {
		URI  string   `json:"uri"`
		URIs []string `json:"uris"`
		Run  string   `json:"run_id"`
	}
	// The message already names arguments that cannot be read.
	_ = json.Unmarshal(object(req.Params.RawArguments), &named)
	uri := named.URI
	if len(named.URIs) > 0 {
		uri = named.URIs[0]
	}
	if uri == "" || len(uri) > maxEcho {
		return req.Params.Name, named.Run
	}
	return req.Params.Name + " with " + uri, named.Run
}
