// Command kairos-driver-command is the capability driver that runs the command of a
// shell challenge itself, in a sandbox and on a copy of the workspace that the
// operator names, for steps that a person allowed it to do.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
