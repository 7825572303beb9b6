package bench_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// librarySeed and the sizes of what is measured with a library.
const (
	librarySeed     = 1
	librarySearches = 500
	libraryMints    = 100
)

// libraryProtocols is how large the library is.
func libraryProtocols(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("KAIROS_BENCH_PROTOCOLS"), "10000"))
	if err != nil || n < 1000 {
		b.Fatalf("KAIROS_BENCH_PROTOCOLS must be a number of at least 1000, not %q", os.Getenv("KAIROS_BENCH_PROTOCOLS"))
	}
	return n
}

// BenchmarkLibrary measures the program with a large library in each kind of
// database: the import, the first call of a server started on it, searches,
// mints, and the memory of the server after all that.
func BenchmarkLibrary(b *testing.B) {
	program := filepath.Join(programs(b), "kairos")
	n := libraryProtocols(b)
	folder := writeLibrary(b, n)
	for name, database := range map[string]func(*testing.B) []string{"sqlite": sqliteOnly, "qdrant": withQdrant} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "kairos.db")
			env := append(database(b), "KAIROS_DB="+file, "LOG_LEVEL=error")
			for b.Loop() { // once: it takes longer than a benchmark should
				perSecond := importLibrary(b, env, program, folder, n)
				forget(b, file)
				first, searches, mints := useLibrary(b, env, program)
				thousands := float64(n) / 1000
				measured.add(most(fmt.Sprintf("first search among %d protocols, %s", n, name), first.p50(), "ms", 100*thousands))
				measured.add(most(fmt.Sprintf("searches among %d protocols, p95, %s", n, name), searches.percentile(95), "ms", 1.5*thousands))
				measured.add(least(fmt.Sprintf("import of %d protocols, %s", n, name), perSecond, "/s", 1000))
				measured.add(most(fmt.Sprintf("mint beside %d protocols, p95, %s", n, name), mints.percentile(95), "ms", 20))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// forget makes the kernel read the file from the disk again, where dd is GNU's.
func forget(b *testing.B, file string) {
	b.Helper()
	if out, err := exec.CommandContext(b.Context(), "dd", "if="+file, "iflag=nocache", "count=0").CombinedOutput(); err != nil {
		b.Logf("THE FILE IS NOT COLD: %v: %s", err, out)
	}
}

func sqliteOnly(*testing.B) []string { return nil }

func withQdrant(b *testing.B) []string {
	return []string{"QDRANT_URL=http://" + qdranttest.New(b, qdranttest.Options{}).Address(), "QDRANT_COLLECTION=bench"}
}

// writeLibrary writes protocols of five steps, four of them with a challenge,
// and returns the folder.
func writeLibrary(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	i := 0
	for c := range storetest.Library(n, librarySeed) {
		into := filepath.Join(dir, strconv.Itoa(i/1000))
		if err := os.MkdirAll(into, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(into, fmt.Sprintf("%06d.md", i)), []byte(document(b, c, i)), 0o600); err != nil {
			b.Fatal(err)
		}
		i++
	}
	return dir
}

// document is a chain with challenges that differ from those of other chains.
func document(b *testing.B, c protocol.Chain, i int) string {
	b.Helper()
	type object = map[string]any
	for j, challenge := range []object{
		{"type": "shell", "shell": object{"cmd": fmt.Sprintf("make check-%d", i), "timeout_seconds": 60}},
		{"type": "comment", "comment": object{"min_length": 20}},
		{"type": "user_input", "user_input": object{"prompt": fmt.Sprintf("Is %q done?", c.Steps[2].Label)}},
		{"type": "mcp", "mcp": object{"tool_name": fmt.Sprintf("tool_%d", i)}},
	} {
		raw, err := json.Marshal(challenge)
		if err != nil {
			b.Fatal(err)
		}
		c.Steps[j].Challenge = raw
	}
	return protocol.Render(c)
}

// importLibrary returns how many protocols it imported in a second.
func importLibrary(b *testing.B, env []string, program, folder string, n int) float64 {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, "import", "--output", "json", folder)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	begin := time.Now()
	out, err := cmd.Output()
	took := time.Since(begin)
	var report struct {
		Stored int `json:"stored"`
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil || report.Stored != n {
		b.Fatalf("import of %d protocols: %v: %s", n, err, out)
	}
	b.ReportMetric(float64(n)/took.Seconds(), "imported/s")
	// On a machine that is busy with other things, this says more than the clock.
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	b.ReportMetric(cpu.Seconds()*1000/float64(n), "import-cpu-ms")
	return float64(n) / took.Seconds()
}

// useLibrary measures a server on a library and returns its first search, which reads
// all protocols from the disk, the searches after it, and its mints.
func useLibrary(b *testing.B, env []string, program string) (first, searches, mints samples) {
	b.Helper()
	next, stop := iter.Pull(storetest.Queries(librarySeed))
	defer stop()
	p := start(b, env, program, "serve")
	defer p.stop(b)
	p.initialize(b)
	search := func() {
		q, _ := next()
		p.tool(b, "kairos_search", map[string]any{"query": q.Text})
	}
	first.measure(search)
	for range librarySearches {
		searches.measure(search)
	}
	i := 0
	for c := range storetest.Library(libraryMints, librarySeed+1) {
		c.Title = fmt.Sprintf("%s %d", c.Title, time.Now().UnixNano())
		arguments := map[string]any{"markdown_doc": document(b, c, i), "llm_model_id": "bench", "force_update": true}
		mints.measure(func() { p.tool(b, "kairos_mint", arguments) })
		i++
	}
	b.ReportMetric(first.p50(), "first-search-ms")
	b.ReportMetric(searches.p50(), "search-p50-ms")
	b.ReportMetric(searches.percentile(95), "search-p95-ms")
	b.ReportMetric(mints.p50(), "mint-p50-ms")
	b.ReportMetric(residentMB(b, strconv.Itoa(p.cmd.Process.Pid)), "rss-MB")
	return first, searches, mints
}
