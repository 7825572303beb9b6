package challenge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/challenge"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// A step of this type demands words; the evidence is a text that mentions them.
// The main function of its driver is driverrpc.Main(d).
func ExampleNew() {
	type demand struct {
		Words []string `json:"words" required:"true" min:"1" doc:"words that the text has to mention"`
	}
	type evidence struct {
		Text string `json:"text" required:"true" doc:"what was done, in your own words"`
	}
	judge := func(_ context.Context, d demand, e evidence) challenge.Verdict {
		for _, word := range d.Words {
			if !strings.Contains(e.Text, word) {
				return challenge.Reject("WORD_MISSING", fmt.Sprintf("The text does not mention %q.", word))
			}
		}
		return challenge.Accept(e)
	}
	d := challenge.New("keyword", "0.1.0", judge, challenge.Options[demand]{})

	ctx := context.Background()
	checked, _ := d.Challenge.Validate(ctx, driver.ValidateRequest{Challenge: json.RawMessage(`{"keyword": {"words": [7]}}`)})
	fmt.Println(checked.Diagnostics[0].Pointer, checked.Diagnostics[0].Message)

	req := driver.AdvanceRequest{Challenge: json.RawMessage(`{"keyword": {"words": ["rollback"]}}`)}
	asked, _ := d.Challenge.Advance(ctx, req)
	fmt.Println(asked.NeedInput[0].Description)

	req.Answers = []driver.Answer{{InputID: "evidence", Value: json.RawMessage(`{"text": "deployed"}`), Provenance: driver.AgentReported}}
	judged, _ := d.Challenge.Advance(ctx, req)
	fmt.Println(judged.Rejected.Message)
	// Output:
	// /keyword/words/0 must be a string, not a number
	// Submit as evidence:
	// - text (string): what was done, in your own words
	// The text does not mention "rollback".
}
