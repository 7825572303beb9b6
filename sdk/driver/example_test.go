package driver_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// dice demands a number from 1 to 6. A driver is a function of its request: as
// long as the answer is missing it asks, then it judges.
type dice struct{}

func (dice) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (dice) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	answer, found := req.Answer("evidence")
	if !found {
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "dice", Description: "Roll the dice and report the number.",
			Schema: json.RawMessage(`{"type":"integer","minimum":1,"maximum":6}`),
		}), nil
	}
	var n int
	_ = json.Unmarshal(answer.Value, &n) // without a number it stays 0
	if n < 1 || n > 6 {
		return driver.Reject("NOT_A_ROLL", "A dice shows 1 to 6."), nil
	}
	return driver.Accept(answer.Value, nil), nil
}

func ExampleChallenge() {
	ctx := context.Background()
	asked, _ := dice{}.Advance(ctx, driver.AdvanceRequest{})
	fmt.Println(asked.NeedInput[0].Description)

	answer := driver.Answer{InputID: "evidence", Value: json.RawMessage(`7`), Provenance: driver.AgentReported}
	judged, _ := dice{}.Advance(ctx, driver.AdvanceRequest{Answers: []driver.Answer{answer}})
	fmt.Println(judged.Rejected.Code, judged.Rejected.Retryable)
	// Output:
	// Roll the dice and report the number.
	// NOT_A_ROLL true
}

func ExampleDescriptor_Has() {
	d := driver.Descriptor{Name: "elicitation", Features: []string{driver.FeatureHuman}}
	fmt.Println(d.Has(driver.FeatureHuman), d.Has(driver.FeatureAgent))
	// Output: true false
}

func ExampleProblem() {
	found, _ := json.Marshal([]driver.Diagnostic{
		driver.Problem("/shell/cmd", "is missing"),
		driver.Warning("/shell/timeout", `unknown key "timeout"`),
	})
	fmt.Println(string(found))
	// Output: [{"severity":"error","pointer":"/shell/cmd","message":"is missing"},{"severity":"warning","pointer":"/shell/timeout","message":"unknown key \"timeout\""}]
}
