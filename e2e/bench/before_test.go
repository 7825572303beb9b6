package bench_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkNextBefore is kairos_next over stdio now and as it was in an earlier
// commit, in turn. `make bench-before` builds that commit.
func BenchmarkNextBefore(b *testing.B) {
	earlier := os.Getenv("KAIROS_BIN_BEFORE")
	if earlier == "" {
		b.Skip("KAIROS_BIN_BEFORE is not set: run `make bench-before BEFORE=commit`")
	}
	now, before := newPair(b, programs(b)), newPair(b, earlier)
	defer now.stop(b)
	defer before.stop(b)
	for b.Loop() {
		for range wireSamples {
			now.next(b)
			before.next(b)
		}
	}
	b.ReportMetric(now.took.p50(), "p50-ms")
	b.ReportMetric(before.took.p50(), "before-p50-ms")
	b.ReportMetric(now.perNext(b), "server-cpu-ms")
	b.ReportMetric(before.perNext(b), "before-server-cpu-ms")
	b.ReportMetric(now.took.p50()/before.took.p50(), "x-before")
	b.ReportMetric(0, "ns/op")
	measured.add(most("kairos_next over stdio", now.took.p50()/before.took.p50(), "x the earlier commit", 1.05))
}

// pair is one of two servers that are compared, with a run of the long protocol.
type pair struct {
	*process
	uri   string
	open  stepReply
	left  int
	took  samples
	spent time.Duration // before the first kairos_next
}

func newPair(b *testing.B, bin string) *pair {
	b.Helper()
	p := &pair{process: start(b, []string{"LOG_LEVEL=error", "KAIROS_DRIVERS_DIR=" + filepath.Join(bin, "drivers")},
		filepath.Join(bin, "kairos"), "serve", "--db", filepath.Join(b.TempDir(), "kairos.db"))}
	p.initialize(b)
	p.uri = p.tool(b, "kairos_mint", map[string]any{"markdown_doc": longDoc(), "llm_model_id": "bench", "force_update": true}).Items[0].URI
	p.open = p.tool(b, "kairos_begin", map[string]any{"uri": p.uri})
	p.left = stepsOfRun - 1
	p.spent, _ = processCPU(b, p.cmd.Process.Pid)
	return p
}

func (p *pair) next(b *testing.B) {
	if p.left == 0 {
		p.open = p.tool(b, "kairos_begin", map[string]any{"uri": p.uri})
		p.left = stepsOfRun - 1
	}
	arguments := map[string]any{"uri": p.open.CurrentStep.URI, "solution": solution(p.open)}
	p.took.measure(func() { p.open = p.tool(b, "kairos_next", arguments) })
	if p.open.ErrorCode != "" || len(p.open.ProofHash) != 64 {
		b.Fatalf("kairos_next: %+v", p.open)
	}
	p.left--
}

// perNext is the processor time of the server for one kairos_next in
// milliseconds, with its part of a kairos_begin.
func (p *pair) perNext(b *testing.B) float64 {
	b.Helper()
	own, _ := processCPU(b, p.cmd.Process.Pid)
	return (own - p.spent).Seconds() * 1000 / float64(len(p.took))
}
