package director_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
)

// BenchmarkRuns is whole runs of 32 callers at a time, each with three steps and an
// attestation, on protocols that are begun again and again. Its drivers cost nothing.
func BenchmarkRuns(b *testing.B) {
	w := newWorld(b, nil)
	var uris []string
	for i := range 50 {
		uris = append(uris, w.mint(strings.Replace(threeSteps, "# ", fmt.Sprintf("# %d ", i), 1))[0])
	}
	b.SetParallelism(max(1, 32/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := w.begin(uris[rand.IntN(len(uris))])
			for r.Challenge.Nonce != "" {
				r = w.next(r.CurrentStep.URI, solve(r, `{"ok":true}`))
			}
			if _, err := w.Attest(b.Context(), w.caller, api.AttestRequest{URI: r.CurrentStep.URI, RunID: r.RunID, Outcome: "success", Message: "done"}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkLongRun plays a run of many steps. It reports the median of the first
// and of the last tenth of them, and their ratio, last/first: a step costs the same
// wherever it is in a run.
func BenchmarkLongRun(b *testing.B) {
	for size, steps := range map[int]int{100: 1000, 100 << 10: 300} {
		b.Run(fmt.Sprintf("evidence=%d", size), func(b *testing.B) {
			w := newWorld(b, nil)
			uris := w.mint(longProtocol(steps))
			evidence := fmt.Sprintf(`{"ok":true,"stdout":%q}`, strings.Repeat("x", size))
			for b.Loop() {
				took := make([]time.Duration, 0, steps)
				for r := w.begin(uris[0]); r.Challenge.Nonce != "" && len(took) < steps; {
					s := solve(r, evidence)
					began := time.Now()
					r = w.next(r.CurrentStep.URI, s)
					took = append(took, time.Since(began))
				}
				first, last := median(took[:steps/10]), median(took[len(took)-steps/10:])
				b.ReportMetric(float64(first.Microseconds()), "first-µs")
				b.ReportMetric(float64(last.Microseconds()), "last-µs")
				b.ReportMetric(float64(last)/float64(first), "last/first")
			}
		})
	}
}

func longProtocol(steps int) string {
	doc := strings.Builder{}
	doc.WriteString("# A long run\n")
	for i := range steps {
		fmt.Fprintf(&doc, "\n## Step %d\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n", i+1)
	}
	return doc.String()
}

// BenchmarkAttest attests a run of 200 steps with 100 KiB of evidence each: by the server
// that ran it, which holds what it verified, and by one that has to read it all.
func BenchmarkAttest(b *testing.B) {
	const steps, size = 200, 100 << 10
	for _, name := range []string{"same server", "another server"} {
		b.Run(name, func(b *testing.B) {
			evidence := fmt.Sprintf(`{"ok":true,"stdout":%q}`, strings.Repeat("x", size))
			var took []time.Duration
			for b.Loop() {
				w := newWorld(b, nil)
				r := w.begin(w.mint(longProtocol(steps))[0])
				for r.Challenge.Nonce != "" {
					r = w.next(r.CurrentStep.URI, solve(r, evidence))
				}
				if name != "same server" {
					w.Engine = w.another()
				}
				began := time.Now()
				reply, err := w.Attest(b.Context(), w.caller, api.AttestRequest{URI: r.CurrentStep.URI, RunID: r.RunID, Outcome: "success", Message: "done"})
				if took = append(took, time.Since(began)); err != nil || !reply.Verified {
					b.Fatal(reply.Message, err)
				}
			}
			b.ReportMetric(float64(median(took).Microseconds())/1000, "attest-ms")
		})
	}
}

func median(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
