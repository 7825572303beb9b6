// Command kairos-driver-llm is the capability driver that asks a language model
// of the server's own, through an endpoint that speaks like OpenAI's: a fixed
// prompt, one JSON value back, nothing else taken. Without base_url and model
// it asks nobody.
package main

import "github.com/kairos-mcp/kairos/sdk/driverrpc"

func main() { driverrpc.Main(definition()) }
