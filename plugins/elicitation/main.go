// Command kairos-driver-elicitation is the capability driver that asks a
// person through the client: by an elicitation form, or by the address of the
// approval page when the client can only open addresses.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
