//go:build unix

package qdrant_test

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// The size of the benchmarks: protocols, and numbers in a vector (0: none).
const (
	benchProtocols = "KAIROS_BENCH_PROTOCOLS"
	benchVectors   = "KAIROS_BENCH_DIMENSION"
)

func setting(b *testing.B, name string, otherwise int) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

const (
	importBatch = 256
	benchModel  = "bench/random/1"
)

// fill stores a library as an import does. It gives the first protocols, and
// how many were stored in a second; ResetTimer would forget a metric.
func fill(b *testing.B, s *qdrant.Store, n int) (first []protocol.Chain, rate float64) {
	b.Helper()
	start := time.Now()
	cost := spent()
	defer func() { cost.report(b, "import", n) }()
	var batch []library.Change
	flush := func() {
		if _, err := s.SaveChains(b.Context(), batch); err != nil {
			b.Fatalf("SaveChains(%d) = %v", len(batch), err)
		}
		batch = batch[:0]
	}
	for c := range storetest.Library(n, 1) {
		if len(first) < 1000 {
			first = append(first, c)
		}
		if batch = append(batch, library.Change{Chain: c}); len(batch) == importBatch {
			flush()
		}
	}
	if len(batch) > 0 {
		flush()
	}
	return first, float64(n) / time.Since(start).Seconds()
}

// embed stores random vectors for all passages.
func embed(b *testing.B, s *qdrant.Store, dimension int) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for {
		missing, err := s.Missing(b.Context(), benchModel, 1000)
		if err != nil {
			b.Fatalf("Missing = %v", err)
		}
		if len(missing) == 0 {
			return
		}
		vectors := make(map[string][]float32, len(missing))
		for _, p := range missing {
			vectors[p.Hash] = randomVector(r, dimension)
		}
		if err := s.SaveVectors(b.Context(), benchModel, vectors); err != nil {
			b.Fatalf("SaveVectors = %v", err)
		}
	}
}

func randomVector(r *rand.Rand, dimension int) []float32 {
	v := make([]float32, dimension)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// BenchmarkSearch reports the median and the 95th percentile of the time that a
// search takes, and the memory of the server beside it.
func BenchmarkSearch(b *testing.B) {
	address := qdranttest.Start(b)
	s := open(b, qdrant.Options{URL: address, Collection: collection(b, address), Timeout: 5 * time.Minute})
	chains, dimension := setting(b, benchProtocols, 10_000), setting(b, benchVectors, 0)
	first, imported := fill(b, s, chains)
	space := first[0].Space
	if dimension > 0 {
		embed(b, s, dimension)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var took []time.Duration
	kinds := map[string][]time.Duration{}
	next, stop := pull(storetest.Queries(1))
	defer stop()
	cost := spent()
	b.ResetTimer()
	for b.Loop() {
		asked := next()
		q := library.Query{Text: asked.Text, Spaces: []string{space, access.AppSpace}, Limit: 20}
		if dimension > 0 {
			q.Embedding = &library.Embedding{Model: benchModel, Vector: randomVector(r, dimension)}
		}
		start := time.Now()
		if _, err := s.Search(b.Context(), q); err != nil {
			b.Fatalf("Search(%q) = %v", q.Text, err)
		}
		took = append(took, time.Since(start))
		kinds[asked.Kind] = append(kinds[asked.Kind], took[len(took)-1])
	}
	cost.report(b, "search", len(took))
	b.ReportMetric(quantile(took, 0.5), "p50-ms")
	b.ReportMetric(quantile(took, 0.95), "p95-ms")
	for kind, took := range kinds {
		b.Logf("%-8s %5d p50 %.2f ms, p95 %.2f ms", kind, len(took), quantile(took, 0.5), quantile(took, 0.95))
	}
	b.ReportMetric(imported, "imported/s")
	b.ReportMetric(float64(qdranttest.Memory())/(1<<20), "server-MiB")
}

func quantile(took []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(took))
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// BenchmarkMint stores one protocol of five steps.
func BenchmarkMint(b *testing.B) {
	address := qdranttest.Start(b)
	s := open(b, qdrant.Options{URL: address, Collection: collection(b, address)})
	next, stop := pull(storetest.Library(1_000_000, 1))
	defer stop()
	var took []time.Duration
	cost := spent()
	b.ResetTimer()
	for b.Loop() {
		c := next()
		start := time.Now()
		if _, err := s.SaveChains(b.Context(), []library.Change{{Chain: c}}); err != nil {
			b.Fatalf("SaveChains = %v", err)
		}
		took = append(took, time.Since(start))
	}
	cost.report(b, "mint", len(took))
	b.ReportMetric(quantile(took, 0.5), "p50-ms")
	b.ReportMetric(quantile(took, 0.95), "p95-ms")
}

// usage is processor time. On a machine with other work it tells more than the clock.
type usage struct{ here, server time.Duration }

func spent() usage {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return usage{}
	}
	return usage{time.Duration(own.Utime.Nano() + own.Stime.Nano()), qdranttest.CPU()}
}

// report logs what was spent since for each of n.
func (u usage) report(b *testing.B, what string, n int) {
	b.Helper()
	now := spent()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
	b.Logf("%s: %.2f ms of a processor here, %.2f ms in the server, for each of %d", what, each(now.here-u.here), each(now.server-u.server), n)
}

// pull gives the values of an endless sequence one by one.
func pull[T any](seq iter.Seq[T]) (next func() T, stop func()) {
	n, stop := iter.Pull(seq)
	return func() T {
		v, ok := n()
		if !ok {
			panic("the sequence has ended")
		}
		return v
	}, stop
}
