package mcp

import (
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

// Versions are the versions of MCP that the server speaks, newest first.
func Versions() []string { return slices.Clone(mcp.ValidProtocolVersions) }
