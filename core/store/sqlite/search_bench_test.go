package sqlite_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// benchProtocols is how large the library of the benchmarks is.
func benchProtocols(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv("KAIROS_BENCH_PROTOCOLS"))
	if err != nil || n < 1000 {
		return 10_000
	}
	return n
}

const benchSeed = 1

// benchLibrary returns the path of a database with a library, kept between runs
// in KAIROS_BENCH_DIR if that is set.
func benchLibrary(b *testing.B) string {
	b.Helper()
	n := benchProtocols(b)
	dir := os.Getenv("KAIROS_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("library-%d.db", n))
	s := open(b, path)
	defer s.Close()
	stored, err := s.Count(b.Context(), librarySpace)
	if err != nil {
		b.Fatal(err)
	}
	if stored == n {
		return path
	}
	start, cpu := time.Now(), cpuTime()
	var batch []library.Change
	for c := range storetest.Library(n, benchSeed) {
		batch = append(batch, library.Change{Chain: c})
		if len(batch) == 250 {
			saveAll(b, s, batch)
			batch = nil
		}
	}
	saveAll(b, s, batch)
	b.Logf("stored %d protocols, each %s by the clock, %s of processor time", n,
		(time.Since(start) / time.Duration(n)).Round(time.Microsecond), ((cpuTime() - cpu) / time.Duration(n)).Round(time.Microsecond))
	return path
}

// librarySpace is where storetest.Library puts its chains.
var librarySpace = func() string {
	for c := range storetest.Library(1, benchSeed) {
		return c.Space
	}
	return ""
}()

func saveAll(b *testing.B, s *sqlitetest.Store, batch []library.Change) {
	b.Helper()
	if _, err := s.SaveChains(b.Context(), batch); err != nil {
		b.Fatalf("SaveChains = %v, want nil", err)
	}
}

// BenchmarkSearchLibrary searches as people do, one after the other, and says
// how many of those who mean a protocol find it among the first five.
func BenchmarkSearchLibrary(b *testing.B) {
	s := open(b, benchLibrary(b))
	defer s.Close()
	next, stop := iter.Pull(storetest.Queries(benchSeed))
	defer stop()
	took := map[string][]time.Duration{}
	meant, found := 0, 0
	for range 20 { // warm
		searchFor(b, s, first(next()))
	}
	cpu := cpuTime()
	for b.Loop() {
		q := first(next())
		start := time.Now()
		hits := searchFor(b, s, q)
		spent := time.Since(start)
		took[""], took[q.Kind] = append(took[""], spent), append(took[q.Kind], spent)
		if q.Title != "" {
			meant++
			if slices.ContainsFunc(hits[:min(5, len(hits))], func(h library.Hit) bool { return h.Chain.Title == q.Title }) {
				found++
			}
		}
	}
	// On a machine that is busy with other things, this says more than the clock.
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	for kind, all := range took {
		slices.Sort(all)
		if kind != "" {
			kind += "-"
		}
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, kind+"p50-ms")
		b.ReportMetric(float64(all[len(all)*95/100].Microseconds())/1000, kind+"p95-ms")
	}
	b.ReportMetric(float64(found)/float64(max(1, meant)), "recall@5")
}

func first[T any](v T, _ bool) T { return v }

func searchFor(b *testing.B, s *sqlitetest.Store, q storetest.LibraryQuery) []library.Hit {
	b.Helper()
	hits, err := s.Search(b.Context(), library.Query{Text: q.Text, Spaces: []string{librarySpace}, Limit: 20})
	if err != nil {
		b.Fatalf("Search(%q) = %v, want nil", q.Text, err)
	}
	return hits
}

// benchNumbers is the length of the vectors of the benchmarks.
const benchNumbers = 1024

// BenchmarkSearchVectors searches by words and vectors, one for each step.
func BenchmarkSearchVectors(b *testing.B) {
	s := open(b, benchLibrary(b))
	defer s.Close()
	r := rand.New(rand.NewPCG(benchSeed, benchSeed))
	saveBenchVectors(b, s, r)
	next, stop := iter.Pull(storetest.Queries(benchSeed))
	defer stop()
	search := func() {
		e := &library.Embedding{Model: "bench", Vector: benchVector(r)}
		if _, err := s.Search(b.Context(), library.Query{Text: first(next()).Text, Spaces: []string{librarySpace}, Limit: 20, Embedding: e}); err != nil {
			b.Fatalf("Search = %v, want nil", err)
		}
	}
	start := time.Now()
	search()
	b.Logf("the first search took %s", time.Since(start).Round(time.Millisecond))
	var took []time.Duration
	cpu := cpuTime()
	for b.Loop() {
		start := time.Now()
		search()
		took = append(took, time.Since(start))
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(residentMB(), "rss-MB")
}

func saveBenchVectors(b *testing.B, s *sqlitetest.Store, r *rand.Rand) {
	b.Helper()
	for {
		missing, err := s.Missing(b.Context(), "bench", 2000)
		if err != nil {
			b.Fatal(err)
		}
		if len(missing) == 0 {
			return
		}
		vectors := map[string][]float32{}
		for _, p := range missing {
			vectors[p.Hash] = benchVector(r)
		}
		if err := s.SaveVectors(b.Context(), "bench", vectors); err != nil {
			b.Fatal(err)
		}
	}
}

// benchVector is a vector of no meaning, in one half of all directions as those
// of models are.
func benchVector(r *rand.Rand) []float32 {
	v := make([]float32, benchNumbers)
	for i := range v {
		v[i] = float32(r.NormFloat64() + 0.3)
	}
	return v
}

// residentMB is the memory of this process, 0 where nobody says.
func residentMB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest + " x")[0])
	if err != nil {
		return 0
	}
	return float64(kb) / 1024
}

// BenchmarkMintIntoLibrary stores one protocol at a time, durably.
func BenchmarkMintIntoLibrary(b *testing.B) {
	path := benchLibrary(b)
	s := open(b, path)
	defer s.Close()
	var fresh []protocol.Chain
	for c := range storetest.Library(2000, benchSeed+1) {
		c.Space = "user:bench:fresh"
		fresh = append(fresh, c)
	}
	i := 0
	each(b, func() error {
		c := fresh[i%len(fresh)]
		c.Title = fmt.Sprintf("%s %d", c.Title, i)
		c.ID = protocol.ChainID(c.Title)
		c.Steps = slices.Clone(c.Steps)
		for j := range c.Steps {
			c.Steps[j].UUID = fmt.Sprintf("%s-%d-%d", c.ID, i, j)
		}
		i++
		_, err := s.SaveChains(b.Context(), []library.Change{{Chain: c}})
		return err
	})
	for ; i > 0; i-- {
		c := fresh[(i-1)%len(fresh)]
		if err := s.DeleteChain(b.Context(), c.Space, protocol.ChainID(fmt.Sprintf("%s %d", c.Title, i-1)), 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory is the memory of a fresh process after a thousand searches.
func BenchmarkMemory(b *testing.B) {
	path := benchLibrary(b)
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestSearchingProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "KAIROS_BENCH_SEARCH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("searching process: %v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "VmRSS ")
	kb, err := strconv.Atoi(strings.Fields(rest + " x")[0])
	if err != nil {
		b.Fatalf("searching process said %s", out)
	}
	for b.Loop() {
		runtime.Gosched()
	}
	b.ReportMetric(float64(kb)/1024, "rss-MB")
}

// TestSearchingProcess is the process that BenchmarkMemory starts.
func TestSearchingProcess(t *testing.T) {
	path := os.Getenv("KAIROS_BENCH_SEARCH")
	if path == "" {
		t.Skip("only for BenchmarkMemory")
	}
	s, err := sqlitetest.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	for q := range storetest.Queries(benchSeed) {
		_, err := s.Search(context.Background(), library.Query{Text: q.Text, Spaces: []string{librarySpace}, Limit: 20})
		if n++; err != nil || n == 1000 {
			break
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("NOT MEASURED: what the process holds: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Println("VmRSS", strings.Fields(size)[0])
		}
	}
}
