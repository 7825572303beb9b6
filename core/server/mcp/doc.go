// Package mcp speaks MCP for the engine: nine tools, one file each, that
// decode, make one engine call and encode. It holds no rule of a run.
//
// Its heart is the client exchange (exchange.go): what the engine asks of the
// client becomes a request to the client in the eras up to 2025-11-25, and an
// input_required result with a sealed requestState from 2026-07-28 on. One
// process serves both, decided request by request.
//
// Two links carry messages to it, and share rpc.go: stdio.go, with one client on
// a pair of streams, and http.go, with many.
package mcp
