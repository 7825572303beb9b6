package bench_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// longDoc is a protocol of stepsOfRun steps, all but the last of which lead to
// another one: the ordinary kairos_next.
func longDoc() string {
	var doc strings.Builder
	doc.WriteString("# Bench over the wire\n")
	for i := range stepsOfRun {
		fmt.Fprintf(&doc, "\n## Step %d\n\nRun it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n", i+1)
	}
	return doc.String()
}

const stepsOfRun = 5

// runner is an agent with a run of the long protocol.
type runner struct {
	*agent
	uri  string
	open stepReply
	left int // steps before the last
}

func (r *runner) begin(b testing.TB) {
	r.open, _ = r.call(b, "kairos_begin", map[string]any{"uri": r.uri})
	r.left = stepsOfRun - 1
}

// next solves the open step.
func (r *runner) next(b testing.TB) time.Duration {
	done, took := r.call(b, "kairos_next", map[string]any{"uri": r.open.CurrentStep.URI, "solution": solution(r.open)})
	if done.ErrorCode != "" || len(done.ProofHash) != 64 {
		b.Fatalf("kairos_next: %+v", done)
	}
	r.open = done
	r.left--
	return took
}

func mintLong(b *testing.B, a *agent) string {
	b.Helper()
	return mint(b, a, longDoc())
}

func mint(b *testing.B, a *agent, doc string) string {
	b.Helper()
	minted, _ := a.call(b, "kairos_mint", map[string]any{"markdown_doc": doc, "llm_model_id": "bench", "force_update": true})
	return minted.Items[0].URI
}

// bareDriverCalls are the calls of callsOn on drivers that go-plugin alone has started.
func bareDriverCalls(b *testing.B) func() {
	b.Helper()
	return callsOn(b, dispense(b, "shell").Challenge(), dispense(b, "agent").Capability())
}

// dispense starts a shipped driver as go-plugin alone does.
func dispense(b *testing.B, name string) *driverrpc.Client {
	b.Helper()
	client := launch(b, filepath.Join(programs(b), "drivers", "kairos-driver-"+name))
	b.Cleanup(client.Kill)
	return connect(b, client)
}

// connect is go-plugin's own way to the driver in a process.
func connect(b *testing.B, client *plugin.Client) *driverrpc.Client {
	b.Helper()
	protocol, err := client.Client()
	if err != nil {
		b.Fatal(err)
	}
	served, err := protocol.Dispense(driverrpc.PluginName)
	if err != nil {
		b.Fatal(err)
	}
	return served.(*driverrpc.Client)
}

// wireSamples is how many kairos_next one client makes.
const wireSamples = 1200

// BenchmarkWireNext is one kairos_next of one client over HTTP against the sum
// of its floors, each measured right after it: a tool that does nothing on
// mcp-go's own HTTP server, as many driver calls on bare go-plugin clients as it really
// makes, and one durable commit. Beside them stands our wire with an engine that does nothing.
func BenchmarkWireNext(b *testing.B) {
	for _, era := range eras {
		b.Run(era, func(b *testing.B) {
			dir, client := b.TempDir(), newClient()
			kairos, noop, ours := serveKairos(b, programs(b), dir), floorServer(b, noopHTTP), floorServer(b, noopOurs)
			defer kairos.stop(b)
			defer noop.stop(b)
			defer ours.stop(b)
			r := runner{agent: newAgent(b, kairos, era, client)}
			r.uri = mintLong(b, r.agent)
			noopAgent, oursAgent := newAgent(b, noop, era, client), newAgent(b, ours, era, client)
			commit, calls := committer(b, dir), bareDriverCalls(b)
			arguments := map[string]any{"uri": r.uri, "solution": map[string]any{"type": "shell", "nonce": "n", "proof_hash": "h", "shell": map[string]any{"exit_code": 0}}}

			var next, call, wire, durable, drivers samples
			r.begin(b) // starts the drivers
			made := callsMade(b, kairos.cmd.Process.Pid)
			for b.Loop() {
				for range wireSamples {
					if r.left == 0 {
						r.begin(b)
					}
					next = append(next, r.next(b))
					_, took := noopAgent.call(b, "noop", map[string]any{})
					call = append(call, took)
					_, took = oursAgent.call(b, "kairos_next", arguments)
					wire = append(wire, took)
					durable.measure(commit)
					drivers.measure(calls)
				}
			}
			f := floors{call, durable, drivers, made() / float64(len(next))}
			f.reportNext(b, next)
			b.ReportMetric(wire.p50(), "our-wire-ms")
			f.addNext("HTTP, "+era, next)
		})
	}
}

// The load: each server in turn, so that the machine is the same for all.
const (
	loadRounds = 3
	loadSlice  = 1500 * time.Millisecond
)

// BenchmarkWireLoad is kairos_next of many clients at a time over HTTP, and the
// no-op tool of mcp-go's own server and our wire alone under the same load.
func BenchmarkWireLoad(b *testing.B) {
	for _, era := range eras {
		for _, clients := range []int{8, 32} {
			b.Run(fmt.Sprintf("%s/clients=%d", era, clients), func(b *testing.B) {
				for b.Loop() {
					measureLoad(b, era, clients)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func measureLoad(b *testing.B, era string, clients int) {
	b.Helper()
	client := newClient()
	kairos, noop, ours := serveKairos(b, programs(b), b.TempDir()), floorServer(b, noopHTTP), floorServer(b, noopOurs)
	defer kairos.stop(b)
	defer noop.stop(b)
	defer ours.stop(b)
	uri := mintLong(b, newAgent(b, kairos, era, client))
	nexts, noops, wires := load{server: kairos}, load{server: noop}, load{server: ours}
	for range loadRounds {
		// Runs begin before the measurement, which excludes kairos_begin.
		enough := max(int(nexts.perSecond()*loadSlice.Seconds()*1.5), 3000)
		queues := beginRuns(b, kairos, era, client, uri, clients, enough/(stepsOfRun-1)/clients+1)
		nexts.run(b, clients, func(i int) (time.Duration, bool) {
			for len(queues[i]) > 0 && queues[i][0].left == 0 {
				queues[i] = queues[i][1:]
			}
			if len(queues[i]) == 0 {
				return 0, false
			}
			return queues[i][0].next(b), true
		})
		noops.run(b, clients, steady(b, noop, era, client, clients, "noop", map[string]any{}))
		wires.run(b, clients, steady(b, ours, era, client, clients, "kairos_next", map[string]any{
			"uri": uri, "solution": map[string]any{"type": "shell", "nonce": "n", "proof_hash": "h", "shell": map[string]any{"exit_code": 0}},
		}))
	}
	ratio := nexts.perSecond() / noops.perSecond()
	b.ReportMetric(nexts.perSecond(), "next/s")
	b.ReportMetric(noops.perSecond(), "noop/s")
	b.ReportMetric(wires.perSecond(), "our-wire/s")
	b.ReportMetric(ratio, "x-noop")
	b.ReportMetric(nexts.took.p50(), "p50-ms")
	b.ReportMetric(nexts.took.percentile(99), "p99-ms")
	// On a machine that is busy with other things, these say more than the clock.
	b.ReportMetric(nexts.per(nexts.own), "server-cpu-ms")
	b.ReportMetric(nexts.per(nexts.drivers), "driver-cpu-ms")
	b.ReportMetric(wires.per(wires.own), "our-wire-cpu-ms")
	b.ReportMetric(noops.per(noops.own), "noop-cpu-ms")
	b.ReportMetric(noops.perCPU()/nexts.perCPU(), "x-noop-by-cpu")
	if clients == 8 {
		measured.add(most("kairos_next over HTTP, 8 clients, p99, "+era, nexts.took.percentile(99), "ms", 15))
	}
}

// beginRuns gives each client runs of its own, in one session a client.
func beginRuns(b *testing.B, r *remote, era string, client *http.Client, uri string, clients, each int) [][]*runner {
	b.Helper()
	queues := make([][]*runner, clients)
	inParallel(clients, func(i int) {
		a := newAgent(b, r, era, client)
		for range each {
			one := &runner{agent: a, uri: uri}
			one.begin(b)
			queues[i] = append(queues[i], one)
		}
	})
	return queues
}

// steady makes the same call again and again.
func steady(
	b *testing.B, r *remote, era string, client *http.Client, clients int, tool string, arguments map[string]any,
) func(int) (time.Duration, bool) {
	b.Helper()
	agents := make([]*agent, clients)
	for i := range agents {
		agents[i] = newAgent(b, r, era, client)
	}
	return func(i int) (time.Duration, bool) {
		_, took := agents[i].call(b, tool, arguments)
		return took, true
	}
}

// load is what clients got done together.
type load struct {
	server *remote
	took   samples
	busy   time.Duration
	// Processor time of the server, its drivers and this client.
	own, drivers, client time.Duration
}

// per is a share of a time for each call, in milliseconds.
func (l *load) per(all time.Duration) float64 {
	return all.Seconds() * 1000 / float64(len(l.took))
}

// perCPU is the processor time of one call, whoever spent it.
func (l *load) perCPU() float64 { return l.per(l.own + l.drivers + l.client) }

func (l *load) spend(b *testing.B, sign time.Duration) {
	b.Helper()
	own, drivers := processCPU(b, l.server.pid())
	l.own += sign * own
	l.drivers += sign * drivers
	l.client += sign * cpuOf(b, "self")
}

func (l *load) perSecond() float64 {
	if l.busy == 0 {
		return 0
	}
	return float64(len(l.took)) / l.busy.Seconds()
}

// run lets clients call for a while, or until one of them has nothing left to do.
func (l *load) run(b *testing.B, clients int, call func(client int) (time.Duration, bool)) {
	b.Helper()
	l.spend(b, -1)
	defer l.spend(b, 1)
	each := make([]samples, clients)
	begin := time.Now()
	end := begin.Add(loadSlice)
	var once sync.Once
	stop := make(chan struct{})
	inParallel(clients, func(i int) {
		for time.Now().Before(end) {
			select {
			case <-stop:
				return
			default:
			}
			took, ok := call(i)
			if !ok {
				once.Do(func() { close(stop) })
				return
			}
			each[i] = append(each[i], took)
		}
	})
	l.busy += time.Since(begin)
	l.took = slices.Concat(append(each, l.took)...)
}

func inParallel(n int, do func(i int)) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { do(i) })
	}
	work.Wait()
}

// idleSessions is how many clients of the legacy era have come and wait.
const idleSessions = 10_000

// BenchmarkWireSessions is the memory of a server that keeps many sessions
// which nobody uses: after their handshakes, and with a stream open for each.
func BenchmarkWireSessions(b *testing.B) {
	for b.Loop() {
		client := newClient()
		kairos := serveKairos(b, programs(b), b.TempDir())
		pid := strconv.Itoa(kairos.pid())
		empty := residentMB(b, pid)
		inParallel(16, func(int) {
			for range idleSessions / 16 {
				newAgent(b, kairos, legacyEra, client)
			}
		})
		held := residentMB(b, pid)
		b.ReportMetric(empty, "empty-MB")
		b.ReportMetric(held, "rss-MB")
		measured.add(most(fmt.Sprintf("%d idle sessions", idleSessions), held, "MB", 200))
		kairos.stop(b)
	}
	b.ReportMetric(0, "ns/op")
}

// readyStarts is how often a server is started on a library.
const readyStarts = 15

// BenchmarkWireReady is from starting the process, with a database of many
// protocols, until it says that it is ready, and the first search then.
func BenchmarkWireReady(b *testing.B) {
	dir, n := b.TempDir(), libraryProtocols(b)
	env := []string{"KAIROS_DB=" + filepath.Join(dir, "kairos.db"), "LOG_LEVEL=error"}
	importLibrary(b, env, filepath.Join(programs(b), "kairos"), writeLibrary(b, n), n)
	b.ResetTimer()
	for b.Loop() {
		var ready, search, again samples
		for range readyStarts {
			var r *remote
			ready.measure(func() {
				r = launchKairos(b, programs(b), dir)
				r.awaitReady(b)
			})
			a := newAgent(b, r, legacyEra, newClient())
			_, took := a.call(b, "kairos_search", map[string]any{"query": "rotate the signing keys of the gateway"})
			search = append(search, took)
			_, took = a.call(b, "kairos_search", map[string]any{"query": "restore a backup of the billing database"})
			again = append(again, took)
			r.stop(b)
		}
		b.ReportMetric(ready.p50(), "ready-ms")
		b.ReportMetric(search.p50(), "first-search-ms")
		b.ReportMetric(again.p50(), "second-search-ms")
		measured.add(most(fmt.Sprintf("start to ready with %d protocols", n), ready.p50(), "ms", 100))
	}
	b.ReportMetric(0, "ns/op")
}
