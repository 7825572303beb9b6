// Command kairos-driver-user_input is the challenge driver for a person's own
// answer: approved or rejected, or a form that the step describes by a flat
// JSON Schema.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
