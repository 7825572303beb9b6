// Command kairos-driver-tools is the capability driver that calls the tool of an
// mcp challenge itself, on MCP servers that the operator added, for steps that a
// person allowed it to do.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
