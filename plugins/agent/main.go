// Command kairos-driver-agent is the capability driver that lets the agent
// supply an input: it shows the agent a challenge and reads the solution that
// the agent submits.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
