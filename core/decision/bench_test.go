package decision_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// BenchmarkCompileDefault is what each compile after the first one costs; the
// first one also makes the CEL environment (BenchmarkFirstCompile).
func BenchmarkCompileDefault(b *testing.B) {
	for b.Loop() {
		if _, err := decision.Compile(decision.Default(), shipped()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	tree := defaultTree(b)
	for name, f := range map[string]decision.Facts{
		"agent supplied": {
			Challenge: decision.ChallengeFacts{Type: "shell"},
			Solution:  decision.SolutionFacts{Supplied: true},
		},
		"third route": {Challenge: decision.ChallengeFacts{Type: "shell"}, Client: samples},
		"last of five": {
			Challenge: decision.ChallengeFacts{Type: "user_input"}, Client: samples,
			Config: decision.ConfigFacts{UserInput: bySampling}, Previous: []decision.PreviousFacts{
				{Via: "sampling", Outcome: decision.Invalid, Route: 1},
			},
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if tree.Decide(driver.KindEvidence, f).Route == nil {
					b.Fatal("no route")
				}
			}
		})
	}
}
