// Command kairos-driver-comment is the challenge driver for verification
// comments: long enough, not copied from the step, and about the step.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
