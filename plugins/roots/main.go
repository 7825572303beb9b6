// Command kairos-driver-roots is the capability driver that looks at files: it
// answers what a step demands of them by looking itself, below the folders that
// the client or the operator has opened to it and nowhere else.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
