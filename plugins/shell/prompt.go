package main

import (
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/prompt/untrusted"
)

// reportSchema is the JSON Schema of the evidence.
const reportSchema = `{"type":"object","properties":{` +
	`"exit_code":{"type":"integer","description":"exit code of the command"},` +
	`"stdout":{"type":"string"},"stderr":{"type":"string"},` +
	`"duration_seconds":{"type":"number","minimum":0}},` +
	`"required":["exit_code"],"additionalProperties":false}`

// systemPrompt is for a model that is asked for the evidence.
const systemPrompt = `You are solving a KAIROS challenge in a sandbox. Run this command exactly as written, in a shell that you really have, ` +
	`and return JSON: {"exit_code": <integer>, "stdout": "...", "stderr": "...", "duration_seconds": <number>}. Report the true exit code and output. Never invent a result: if you cannot run the command, ` +
	`return {"exit_code": 127, "stderr": "<why it was not run>"}.`

func userPrompt(p params) string {
	return fmt.Sprintf("Run this command (at most %v seconds):\n\n%s", p.Timeout, untrusted.Block(p.Command))
}

func description(p params) string {
	return fmt.Sprintf("Run this command and report its exit code and output: %s (at most %v seconds). "+
		"Really run it; do not fabricate the result.", p.Command, p.Timeout)
}
