// Command kairos-driver-sampling is the capability driver that asks the
// client's model: a fixed prompt, one JSON value back, nothing else taken.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
