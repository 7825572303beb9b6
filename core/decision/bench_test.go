package decision_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// firstCompile makes the test binary compile the shipped tree once, print the
// nanoseconds and end.
const firstCompile = "DECISION_FIRST_COMPILE"

func TestMain(m *testing.M) {
	if os.Getenv(firstCompile) == "" {
		os.Exit(m.Run())
	}
	start := time.Now()
	if _, err := decision.Compile(decision.Default(), shipped()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(time.Since(start).Nanoseconds())
}

// BenchmarkFirstCompile is what the start of a server pays: the CEL
// environment and the parser's tables are made too, so each one needs a process.
func BenchmarkFirstCompile(b *testing.B) {
	var total int
	for b.Loop() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), firstCompile+"=1")
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			b.Fatal(err)
		}
		total += ns
	}
	b.ReportMetric(float64(total)/float64(b.N), "ns/compile")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCompileDefault is what each later compile costs, as at a reload.
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
