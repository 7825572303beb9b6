package bench_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// parts of the server and the functions of each, by the beginning of their names. A
// sample belongs to the part of its innermost function that has one: what others call,
// such as encoding/json, belongs to whoever called it.
var parts = []struct {
	name      string
	functions []string
}{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart"}},
	{"driver calls, the server's side", []string{"core/driverhost.", "core/drivers.", "sdk/driverrpc.", "google.golang.org/grpc"}},
	{"save", []string{"core/store/sqlite.(*Runs).SaveRun", "core/store/sqlite.(*Runs).CreateRun", "core/store/sqlite.(*writer)", "core/runs.(*Change).Save"}},
	{"search", []string{"core/store/sqlite.(*Protocols).Search", "core/store/sqlite.(*Protocols).reader", "core/store/wordindex.", "core/search.", "core/library.(*Library).Search", "core/library.finder"}},
	{"rating", []string{"core/library.(*rater)", "core/library.(*Library).Rate"}},
	{"load of run and protocol", []string{"core/store/sqlite.(*Runs)", "core/store/sqlite.(*Protocols)", "core/runs.(*Keeper)", "core/runs.Load"}},
	{"decision", []string{"core/decision."}},
	{"events, digests and proof", []string{"core/run."}},
	{"reply", []string{"core/director.(*replies)", "core/director/present.", "core/api."}},
	{"log", []string{"log/slog."}},
	{"MCP: decode, check, encode", []string{"core/server/mcp.", "github.com/mark3labs/mcp-go", "github.com/santhosh-tekuri/jsonschema"}},
	{"HTTP and its guards", []string{"net/http.", "core/server/rest."}},
	{"director, the rest", []string{"core/director."}},
	{"scheduler and the rest", []string{""}},
}

// profileSamples are so many because a profile looks at the server each 10 ms alone.
const profileSamples = 5000

// BenchmarkProfile is where the processor time of the server goes: in a kairos_next of one
// client and in whole runs of 32. It needs the program that make bench-profile builds.
func BenchmarkProfile(b *testing.B) {
	if os.Getenv("KAIROS_PROFILED") == "" {
		b.Skip("KAIROS_PROFILED is not set: run `make bench-profile`")
	}
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "cpu")
		p := newPlayers(b, "", programs(b), newClient(), "KAIROS_CPU_PROFILE="+file)
		one := runner{agent: p.agents[0], uri: p.uris[0]}
		var next samples
		p.profiled(b, file, "kairos_next, 1 client", func() int {
			for range profileSamples {
				if one.left <= 0 {
					one.uri = p.uris[len(next)%len(p.uris)]
					one.begin(b)
				}
				next = append(next, one.next(b))
			}
			return len(next)
		})
		fmt.Printf("p50 of it for the client: %.0f µs\n", next.p50()*1000)
		p.profiled(b, file, "whole run, 32 clients", func() int {
			p.runs.run(b, runClients, p.play(b))
			p.runs.run(b, runClients, p.play(b))
			p.runs.run(b, runClients, p.play(b))
			return len(p.runs.took)
		})
		p.server.stop(b)
	}
	b.ReportMetric(0, "ns/op")
}

// profiled prints where the time of the server goes while do does something a number of
// times.
func (p *players) profiled(b *testing.B, file, what string, do func() int) {
	b.Helper()
	toggle := func() {
		if err := p.server.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			b.Fatal(err)
		}
	}
	l := load{server: p.server}
	toggle()
	l.spend(b, -1)
	times := do()
	l.spend(b, 1)
	toggle()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if time.Now().After(limit) {
			b.Fatal("the server writes no profile: was it built with -tags profile?")
		}
	}
	spent := inParts(b, file)
	var all time.Duration
	for _, d := range spent {
		all += d
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(times) }
	// The profile has a sample for each 10 ms; the kernel knows the sum.
	scale := float64(l.own) / float64(all)
	t := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n%s\tµs of processor time\tshare\t\n", what)
	for _, name := range slices.SortedFunc(maps.Keys(spent), func(a, b string) int { return cmp.Compare(spent[b], spent[a]) }) {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f %%\t\n", name, each(spent[name])*scale, 100*float64(spent[name])/float64(all))
	}
	fmt.Fprintf(t, "the server\t%.0f\t100 %%\t\n", each(l.own))
	fmt.Fprintf(t, "driver processes\t%.0f\t\t\nthe client\t%.0f\t\t\n", each(l.drivers), each(l.client))
	_ = t.Flush() // of stdout
	if err := os.Remove(file); err != nil {
		b.Fatal(err)
	}
}

// inParts sums the samples of a profile by part.
func inParts(b *testing.B, file string) map[string]time.Duration {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "go", "tool", "pprof", "-traces", file).Output()
	if err != nil {
		b.Fatalf("go tool pprof: %v", err)
	}
	spent := map[string]time.Duration{}
	_, samples, _ := bytes.Cut(out, []byte("\n-----------+"))
	for sample := range bytes.SplitSeq(samples, []byte("\n-----------+")) {
		var took time.Duration
		var stack []string
		for lines := bufio.NewScanner(bytes.NewReader(sample)); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if d, err := time.ParseDuration(fields[0]); len(fields) > 1 && err == nil {
				took, fields = d, fields[1:]
			}
			stack = append(stack, strings.TrimPrefix(fields[0], "github.com/kairos-mcp/kairos/"))
		}
		spent[partOf(stack)] += took
	}
	return spent
}

func partOf(stack []string) string {
	for _, function := range stack {
		for _, p := range parts[:len(parts)-1] {
			if slices.ContainsFunc(p.functions, func(begin string) bool { return strings.HasPrefix(function, begin) }) {
				return p.name
			}
		}
	}
	return parts[len(parts)-1].name
}
