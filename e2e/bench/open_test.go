package bench_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// attests is how many attestations are measured beside each number of open runs.
const attests = 200

// BenchmarkWireOpen is a kairos_attest that names no run, of a principal who has left many
// runs of the same protocol open: on the connection of a client with sessions, and of a
// client without one. It must cost the same beside any number of them.
func BenchmarkWireOpen(b *testing.B) {
	for _, era := range eras {
		b.Run(era, func(b *testing.B) {
			for b.Loop() {
				var none float64
				for _, open := range []int{0, 1000, 5000, 50_000} {
					took := attestBeside(b, era, open)
					b.ReportMetric(took.p50(), fmt.Sprintf("open-%d-p50-ms", open))
					if open == 0 {
						none = took.p50()
						continue
					}
					measured.add(most(fmt.Sprintf("kairos_attest beside %d open runs, %s, p50", open, era), took.p50()/none, "x", 1.3).
						over("beside none: %.2f ms", none))
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// attestBeside measures attestations of whole runs beside open ones that never advanced.
func attestBeside(b *testing.B, era string, open int) (took samples) {
	b.Helper()
	dir := b.TempDir()
	server := serveKairos(b, programs(b), dir)
	client := newClient()
	r := runner{agent: newAgent(b, server, modernEra, client)}
	r.uri = mintLong(b, r.agent)
	if open > 0 {
		r.begin(b)
		server.stop(b)
		copyRun(b, filepath.Join(dir, "kairos.db"), open)
		server = serveKairos(b, programs(b), dir)
	}
	defer server.stop(b)
	r.agent = newAgent(b, server, era, client)
	for range attests {
		r.begin(b)
		for r.open.Challenge.Nonce != "" {
			r.next(b)
		}
		done, one := r.call(b, "kairos_attest", map[string]any{"uri": r.uri, "outcome": "success", "message": "It went well."})
		if done.ErrorCode != "" {
			b.Fatalf("kairos_attest: %+v", done)
		}
		took = append(took, one)
	}
	return took
}
