// Command kairos-driver-page is the capability driver that leaves an approval
// to a person at the approval page: the agent shows them its link, so that it
// works with every client, whatever that client can do.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
