package sqlite_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// benchRun is a run of usual size: some steps solved, one open.
func benchRun(b *testing.B, s *sqlitetest.Store) run.Run {
	b.Helper()
	c := storetest.NewChain("user:bench", "Bench", "One", "Two", "Three", "Four")
	r := storetest.NewRun("bench", c)
	for range 2 {
		r.Nonces = append(r.Nonces, storetest.NewNonce())
		r.Evidence = append(r.Evidence, &run.Evidence{Output: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
	}
	must(b, s.CreateRun(b.Context(), runs.Save{Run: r}, c))
	r.Revision = 1
	return r
}

// each runs one call at a time and reports their median, which a checkpoint
// now and then does not move.
func each(b *testing.B, call func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		must(b, call())
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func BenchmarkSaveRun(b *testing.B) {
	s, _ := fresh(b)
	r := benchRun(b, s)
	each(b, func() error {
		err := s.SaveRun(b.Context(), runs.Save{
			Run:      r,
			Events:   []run.Event{{Kind: run.Asked, Run: r.ID, Reason: "measured"}, {Kind: run.Answered, Run: r.ID}},
			Recorded: []runs.Recorded{{Key: "nonce:" + r.Step.Nonce, Payload: r.Pin, Reply: json.RawMessage(`{}`)}},
		})
		r.Revision++
		return err
	})
}

func BenchmarkSaveRunParallel(b *testing.B) {
	s, _ := fresh(b)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		r := benchRun(b, s)
		for pb.Next() {
			if err := s.SaveRun(b.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked}}}); err != nil {
				b.Errorf("SaveRun = %v, want nil", err)
				return
			}
			r.Revision++
		}
	})
}

func BenchmarkRun(b *testing.B) {
	s, _ := fresh(b)
	r := benchRun(b, s)
	each(b, func() error {
		_, err := s.Run(b.Context(), r.ID)
		return err
	})
}
