package mcp

import (
	"context"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Versions are the versions of MCP that the server speaks, newest first.
func Versions() []string { return slices.Clone(mcp.ValidProtocolVersions) }

// structuredSince is the version of MCP that introduced structured content and output
// schemas. Some clients of older versions show both forms of a reply to their model.
const structuredSince = "2025-06-18"

// structured reports whether the client of the request may know structured content: its
// version has it, or is not known.
func structured(ctx context.Context) bool {
	version := versionOf(ctx)
	return version == "" || version >= structuredSince // versions are dates
}

// versionOf is the version of MCP of a request; empty: the client has not said.
func versionOf(ctx context.Context) string {
	if server.IsModernRequest(ctx) {
		return server.RequestProtocolInfoFromContext(ctx).ProtocolVersion
	}
	from := originOf(ctx)
	if from.conn != nil {
		return from.conn.legacyClient().Era
	}
	return from.era
}

// plainTools takes the output schemas from a list of tools for a client that does not
// know them.
func plainTools(ctx context.Context, _ any, _ *mcp.ListToolsRequest, res *mcp.ListToolsResult) {
	if structured(ctx) {
		return
	}
	for i := range res.Tools {
		res.Tools[i].RawOutputSchema = nil
	}
}
