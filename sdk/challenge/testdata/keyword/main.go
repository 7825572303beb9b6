// Command kairos-driver-keyword is a challenge driver: a text must mention words.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/challenge"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

type demand struct {
	Words []string `json:"words" required:"true" min:"1" doc:"words that the text has to mention"`
}

type evidence struct {
	Text string `json:"text" required:"true" min:"1" doc:"what was done, in your own words"`
}

func ask(d demand) string {
	return "Say what you did and mention: " + strings.Join(d.Words, ", ") + "."
}

func judge(_ context.Context, d demand, e evidence) challenge.Verdict {
	for _, word := range d.Words {
		if !strings.Contains(strings.ToLower(e.Text), strings.ToLower(word)) {
			return challenge.Reject("WORD_MISSING", fmt.Sprintf("The text does not mention %q.", word))
		}
	}
	return challenge.Accept(e)
}

func main() {
	driverrpc.Main(challenge.New("keyword", "0.1.0", judge, challenge.Options[demand]{Ask: ask}))
}
