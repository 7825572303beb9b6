package bench_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// BenchmarkWireSteps is what the first and the last tenth of the steps of one
// long run cost the server and its drivers, with little and with much evidence
// for each step. A step must not cost more the more came before it.
func BenchmarkWireSteps(b *testing.B) {
	for _, of := range []struct{ steps, bytes int }{{1000, 100}, {1000, 100 << 10}} {
		b.Run(fmt.Sprintf("steps=%d/evidence=%d", of.steps, of.bytes), func(b *testing.B) {
			for b.Loop() {
				cost := costOfSteps(b, of.steps, of.bytes)
				first, last := cost[0], cost[len(cost)-1]
				b.ReportMetric(first.Seconds()*1000, "first-cpu-ms")
				b.ReportMetric(last.Seconds()*1000, "last-cpu-ms")
				ratio := last.Seconds() / first.Seconds()
				b.ReportMetric(ratio, "last/first")
				measured.add(most(fmt.Sprintf("a late step of %d, %d bytes of evidence each", of.steps, of.bytes), ratio, "x an early one", 1.15))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// costOfSteps returns the processor time of a step in each tenth of a run.
func costOfSteps(b *testing.B, steps, bytes int) (tenths [10]time.Duration) {
	b.Helper()
	server := serveKairos(b, programs(b), b.TempDir())
	defer server.stop(b)
	a := newAgent(b, server, modernEra, newClient())
	r := runner{agent: a, uri: mint(b, a, commentDoc(steps))}
	r.begin(b)
	for i := range tenths {
		own, drivers := processCPU(b, server.pid())
		for range steps / len(tenths) {
			done, _ := a.call(b, "kairos_next", map[string]any{"uri": r.open.CurrentStep.URI, "solution": map[string]any{
				"type": "comment", "nonce": r.open.Challenge.Nonce, "proof_hash": r.open.Challenge.ProofHash,
				"comment": map[string]any{"text": evidence(bytes)},
			}})
			if done.ErrorCode != "" {
				b.Fatalf("kairos_next: %+v", done)
			}
			r.open = done
		}
		own2, drivers2 := processCPU(b, server.pid())
		tenths[i] = (own2 - own + drivers2 - drivers) / time.Duration(steps/len(tenths))
	}
	return tenths
}

// commentDoc is a protocol whose steps ask for a text each.
func commentDoc(steps int) string {
	var doc strings.Builder
	doc.WriteString("# Many steps\n")
	for i := range steps {
		fmt.Fprintf(&doc, "\n## Step %d\n\nSay it.\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":10}}}\n```\n", i+1)
	}
	return doc.String()
}

// evidence is text that hardly compresses.
func evidence(bytes int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	text := make([]byte, bytes)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return string(text)
}
