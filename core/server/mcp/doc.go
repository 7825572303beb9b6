// Package mcp serves the tools, resources and prompts over MCP. Its handlers decode,
// make one call of a use case and encode; rules of runs are elsewhere.
//
// The client exchange (exchange.go) asks clients what the director wants to know: by a
// request to the client in the eras up to 2025-11-25, and by an input_required result
// with a sealed requestState from 2026-07-28 on. One process serves both; each request
// tells its era.
//
// Two transports carry messages and share rpc.go: stdio.go serves one client on a pair
// of streams, http.go many.
package mcp
