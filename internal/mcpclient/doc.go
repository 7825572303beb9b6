// Package mcpclient calls the tools of MCP servers: those of tools.json, which KAIROS calls
// itself, and those that `kairos run` is given. It knows the file with what was pinned of each
// tool, and how a server is started or reached; it imports only sdk.
package mcpclient
