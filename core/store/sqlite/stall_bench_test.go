package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// BenchmarkSaveBesideOthers is how long saves of eight callers take while somebody
// else writes to the same disk, and how large the log becomes.
func BenchmarkSaveBesideOthers(b *testing.B) {
	const callers, lasting = 8, 8 * time.Second
	for b.Loop() {
		dir := b.TempDir()
		path := filepath.Join(dir, "kairos.db")
		s := open(b, path)
		ctx, stop := context.WithTimeout(b.Context(), lasting)
		var all sync.WaitGroup
		all.Go(func() { writeBeside(ctx, b, filepath.Join(dir, "other")) })
		took := make([][]time.Duration, callers)
		c := storetest.NewChain("user:bench", "Bench", "One")
		for i := range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					r := storetest.NewRun("bench", c)
					if err := s.CreateRun(b.Context(), runs.Save{Run: r}, c); err != nil {
						b.Errorf("CreateRun = %v, want nil", err)
						return
					}
					for r.Revision = 1; r.Revision < 8; r.Revision++ {
						begin := time.Now()
						if err := s.SaveRun(b.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Accepted, Evidence: &run.Evidence{Output: noise(4000)}}}}); err != nil {
							b.Errorf("SaveRun = %v, want nil", err)
							return
						}
						took[i] = append(took[i], time.Since(begin))
					}
				}
			})
		}
		all.Wait()
		stop()
		info, err := os.Stat(path + "-wal")
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		sorted := slices.Concat(took...)
		slices.Sort(sorted)
		at := func(share float64) float64 {
			return float64(sorted[int(share*float64(len(sorted)-1))].Microseconds()) / 1000
		}
		b.ReportMetric(at(0.5), "p50-ms")
		b.ReportMetric(at(0.99), "p99-ms")
		b.ReportMetric(at(0.999), "p99.9-ms")
		b.ReportMetric(at(1), "max-ms")
		b.ReportMetric(float64(len(sorted)), "saves")
		b.ReportMetric(float64(info.Size())/1e6, "log-MB")
	}
	b.ReportMetric(0, "ns/op")
}

// writeBeside writes to the disk and syncs until the context ends.
func writeBeside(ctx context.Context, b *testing.B, path string) {
	b.Helper()
	block := make([]byte, 32<<20)
	for ctx.Err() == nil {
		f, err := os.Create(path)
		if err != nil {
			b.Errorf("Create = %v, want nil", err)
			return
		}
		for range 4 {
			_, err = f.Write(block)
		}
		if err == nil {
			err = f.Sync()
		}
		if err := f.Close(); err != nil {
			b.Errorf("Close = %v, want nil", err)
		}
		if err != nil {
			b.Errorf("write = %v, want nil", err)
			return
		}
	}
}
