// Command kairos-driver-mcp is the challenge driver for calls of MCP tools: it
// asks for the outcome of a call and compares tool, arguments and result with
// what the challenge demands. It calls no tool itself.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
