// Command kairos-driver-shell is the challenge driver for commands: it asks
// for the outcome of a command and accepts exit code 0 in time. It judges
// reports and never executes anything itself.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
