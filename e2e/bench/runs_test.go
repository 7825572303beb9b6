package bench_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// The load of whole runs.
const (
	runClients   = 32
	runProtocols = 200 // more than anything that is cached by number of entries
	runRounds    = 8
	callsOfRun   = 8 // search, begin, five steps, attest
)

// BenchmarkWireRuns is whole runs of many clients at a time over HTTP: a search, the
// begin, five steps and the attestation, each run of another protocol; in turn with as
// many calls of a tool that does nothing, on mcp-go's own server. If KAIROS_BIN_BEFORE names the programs of an earlier commit, both servers get the same
// load in turn.
func BenchmarkWireRuns(b *testing.B) {
	for b.Loop() {
		client := newClient()
		now := newPlayers(b, "", programs(b), client)
		defer now.server.stop(b)
		all := []*players{now}
		if earlier := os.Getenv("KAIROS_BIN_BEFORE"); earlier != "" {
			before := newPlayers(b, "before-", earlier, client)
			defer before.server.stop(b)
			all = append(all, before)
		}
		noop := floorServer(b, noopHTTP)
		defer noop.stop(b)
		noops, call := load{server: noop}, steady(b, noop, legacyEra, client, runClients, "noop", map[string]any{})
		for range runRounds {
			for _, p := range all {
				p.runs.run(b, runClients, p.play(b))
			}
			noops.run(b, runClients, func(i int) (took time.Duration, ok bool) {
				for range callsOfRun {
					one, _ := call(i)
					took += one
				}
				return took, true
			})
		}
		for _, p := range all {
			p.report(b)
		}
		measured.add(least(fmt.Sprintf("whole runs over HTTP, %d clients", runClients), now.runs.perSecond(), "runs/s", 400))
		measured.add(least(fmt.Sprintf("whole runs over HTTP, %d clients, by the no-op tool", runClients), now.runs.perSecond()/noops.perSecond(), "x", 0.15).
			over("%d no-op calls: %.0f/s", callsOfRun, noops.perSecond()))
		measured.add(most(fmt.Sprintf("kairos_next in whole runs, %d clients, p99", runClients), now.all().percentile(99), "ms", 60))
		measured.add(most("processor time of server and drivers for a whole run", now.runs.per(now.runs.own+now.runs.drivers), "ms", 3.6).
			over("that of the client: %.2f ms", now.runs.per(now.runs.client)))
	}
	b.ReportMetric(0, "ns/op")
}

// players are clients of one server that play whole runs.
type players struct {
	name   string
	server *remote
	agents []*agent
	titles []string
	uris   []string
	runs   load
	nexts  []samples // by client
}

func newPlayers(b *testing.B, name, bin string, client *http.Client, env ...string) *players {
	b.Helper()
	p := &players{name: name, server: serveKairos(b, bin, b.TempDir(), env...), nexts: make([]samples, runClients)}
	p.runs.server = p.server
	for range runClients {
		p.agents = append(p.agents, newAgent(b, p.server, legacyEra, client))
	}
	i := 0
	for c := range storetest.Library(runProtocols, librarySeed) {
		for j := range c.Steps {
			c.Steps[j].Challenge = json.RawMessage(fmt.Sprintf(`{"type":"shell","shell":{"cmd":"make check-%d-%d"}}`, i, j))
		}
		p.titles, p.uris = append(p.titles, c.Title), append(p.uris, mint(b, p.agents[0], protocol.Render(c)))
		i++
	}
	return p
}

// play returns one whole run of a client as a call.
func (p *players) play(b *testing.B) func(client int) (time.Duration, bool) {
	return func(client int) (time.Duration, bool) {
		a, i := p.agents[client], rand.IntN(len(p.uris))
		began := time.Now()
		a.call(b, "kairos_search", map[string]any{"query": p.titles[i]})
		open, _ := a.call(b, "kairos_begin", map[string]any{"uri": p.uris[i]})
		run := open.RunID
		for open.NextAction != "" && open.Challenge.Nonce != "" {
			done, took := a.call(b, "kairos_next", map[string]any{"uri": open.CurrentStep.URI, "solution": solution(open)})
			if done.ErrorCode != "" || len(done.ProofHash) != 64 {
				b.Errorf("kairos_next: %+v", done)
				return 0, false
			}
			open, p.nexts[client] = done, append(p.nexts[client], took)
		}
		a.call(b, "kairos_attest", map[string]any{"uri": p.uris[i], "run_id": run, "outcome": "success", "message": "It went well."})
		return time.Since(began), true
	}
}

func (p *players) all() samples {
	var all samples
	for _, s := range p.nexts {
		all = append(all, s...)
	}
	return all
}

func (p *players) report(b *testing.B) {
	b.Helper()
	next := p.all()
	b.ReportMetric(p.runs.perSecond(), p.name+"runs/s")
	b.ReportMetric(next.p50(), p.name+"next-p50-ms")
	b.ReportMetric(next.percentile(99), p.name+"next-p99-ms")
	b.ReportMetric(float64(len(next))/float64(len(p.runs.took)), p.name+"nexts/run")
	// On a machine that is busy with other things, these say more than the clock.
	b.ReportMetric(p.runs.per(p.runs.own), p.name+"server-cpu-ms/run")
	b.ReportMetric(p.runs.per(p.runs.drivers), p.name+"driver-cpu-ms/run")
	b.ReportMetric(p.runs.per(p.runs.client), p.name+"client-cpu-ms/run")
	b.ReportMetric(residentMB(b, strconv.Itoa(p.server.pid())), p.name+"rss-MB")
}
