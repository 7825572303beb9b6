// Package bench_test measures the program as a client sees it, each figure
// beside its floors, which are measured in the same run because machines differ
// and are noisy. `make bench` builds the program and runs it.
package bench_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	_ "modernc.org/sqlite"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// noopEnv says which floor this binary is to be.
const (
	noopEnv   = "KAIROS_BENCH_NOOP_SERVER"
	noopStdio = "stdio"
)

// TestMain turns this binary into the floor of every tool call: an MCP server
// whose one tool does nothing.
func TestMain(m *testing.M) {
	var err error
	switch which := os.Getenv(noopEnv); which {
	case "":
		code := m.Run()
		measured.print(os.Stdout)
		os.Exit(code)
	case noopStdio:
		err = server.ServeStdio(noopServer())
	default:
		err = serveFloor(which)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func noopServer() *server.MCPServer {
	s := server.NewMCPServer("noop", "1")
	s.AddTool(mcp.NewTool("noop"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("{}"), nil
	})
	return s
}

func programs(b *testing.B) string {
	b.Helper()
	bin := os.Getenv("KAIROS_BIN")
	if bin == "" {
		b.Skip("KAIROS_BIN is not set: run `make bench`, which builds the program and sets it")
	}
	return bin
}

// process is a server on stdio, spoken to line by line.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

func start(b *testing.B, env []string, argv ...string) *process {
	b.Helper()
	p := &process{cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = io.Discard
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *process) stop(b *testing.B) {
	b.Helper()
	if err := p.in.Close(); err != nil {
		b.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		b.Error(err)
	}
}

// request sends a request and waits for its result.
func (p *process) request(b *testing.B, method string, params any) json.RawMessage {
	b.Helper()
	p.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.id, "method": method, "params": params})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		b.Fatal(err)
	}
	for {
		reply, err := p.out.ReadBytes('\n')
		if err != nil {
			b.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(reply, &m); err != nil || m.ID == nil || *m.ID != p.id {
			continue
		}
		if m.Error != nil {
			b.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	}
}

func (p *process) initialize(b *testing.B) {
	b.Helper()
	p.request(b, "initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	})
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		b.Fatal(err)
	}
}

// stepReply is the reply of any tool.
type stepReply struct {
	api.StepReply

	Items []struct {
		URI string `json:"uri"`
	} `json:"items"`
}

func (p *process) tool(b *testing.B, name string, arguments any) stepReply {
	b.Helper()
	raw := p.request(b, "tools/call", map[string]any{"name": name, "arguments": arguments})
	var res struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &res); err != nil || res.IsError {
		b.Fatalf("%s: %v %s", name, err, raw)
	}
	var r stepReply
	if len(res.StructuredContent) > 0 {
		if err := json.Unmarshal(res.StructuredContent, &r); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
	}
	return r
}

const doc = "# Bench\n\n## One\n\nRun it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n\n" +
	"## Two\n\nRun it again.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n"

func solution(r stepReply) map[string]any {
	return map[string]any{
		"type": "shell", "nonce": r.Challenge.Nonce, "proof_hash": r.Challenge.ProofHash,
		"shell": map[string]any{"exit_code": 0, "stdout": "ok", "duration_seconds": 0.1},
	}
}

func kairos(b *testing.B, dir string) *process {
	b.Helper()
	return start(b, []string{"LOG_LEVEL=error"}, filepath.Join(programs(b), "kairos"), "serve", "--db", filepath.Join(dir, "kairos.db"))
}

type samples []time.Duration

func (s *samples) measure(do func()) {
	begin := time.Now()
	do()
	*s = append(*s, time.Since(begin))
}

func (s samples) p50() float64 { return s.percentile(50) }

// percentile is in milliseconds.
func (s samples) percentile(n int) float64 {
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return float64(sorted[len(sorted)*n/100].Microseconds()) / 1000
}

// stdioSamples is how many kairos_next one client makes over stdio. Every benchmark takes
// its own number of samples and is run once: -benchtime 1x.
const stdioSamples = 1200

// BenchmarkNext is one kairos_next on the agent path against the sum of its
// floors: a tool call that does nothing, one durable commit, and as many bare
// driver calls as it really makes, which the server counts.
func BenchmarkNext(b *testing.B) {
	dir := b.TempDir()
	p := kairos(b, dir)
	defer p.stop(b)
	p.initialize(b)
	uri := p.tool(b, "kairos_mint", map[string]any{"markdown_doc": doc, "llm_model_id": "bench", "force_update": true}).Items[0].URI
	noop := start(b, []string{noopEnv + "=" + noopStdio}, os.Args[0])
	defer noop.stop(b)
	noop.initialize(b)
	commit := committer(b, dir)
	calls := driverCalls(b)

	var next, call, durable, drivers samples
	made := callsMade(b, p.cmd.Process.Pid)
	for range stdioSamples {
		begun := p.tool(b, "kairos_begin", map[string]any{"uri": uri})
		var done stepReply
		next.measure(func() {
			done = p.tool(b, "kairos_next", map[string]any{"uri": uri, "solution": solution(begun)})
		})
		if done.ErrorCode != "" || len(done.ProofHash) != 64 {
			b.Fatalf("kairos_next: %+v", done)
		}
		call.measure(func() { noop.request(b, "tools/call", map[string]any{"name": "noop"}) })
		durable.measure(commit)
		drivers.measure(calls)
	}
	// A begin shows the first step, which is remembered from the second begin on.
	f := floors{call, durable, drivers, made() / stdioSamples}
	f.reportNext(b, next)
	f.addNext("stdio", next)
}

// floors are what a kairos_next cannot do without.
type floors struct {
	call, durable, drivers samples // drivers: the bare calls of callsOn
	made                   float64 // driver calls that reach a process, for each kairos_next
}

// ofDrivers is the time of the driver calls that are made.
func (f floors) ofDrivers() float64 { return f.drivers.p50() / bareCalls * f.made }

func (f floors) sum() float64 { return f.call.p50() + f.durable.p50() + f.ofDrivers() }

// callsMade counts the driver calls of a server that reach a process from now on.
func callsMade(b *testing.B, pid int) func() float64 {
	b.Helper()
	count := func() (n float64) {
		for _, name := range []string{"shell", "agent"} {
			cmd := exec.Command(filepath.Join(programs(b), "kairos"), "driver", "info", name, "-o", "json", "--pid", fmt.Sprint(pid))
			cmd.Env = append(os.Environ(), "KAIROS_DRIVERS_DIR="+filepath.Join(programs(b), "drivers"))
			out, err := cmd.Output()
			var info struct {
				Servers []struct {
					Status struct{ Calls, Remembered float64 }
				}
			}
			if err := errors.Join(err, json.Unmarshal(out, &info)); err != nil || len(info.Servers) != 1 {
				b.Fatalf("count the calls of driver %s: %v\n%s", name, err, out)
			}
			n += info.Servers[0].Status.Calls - info.Servers[0].Status.Remembered
		}
		return n
	}
	before := count()
	return func() float64 { return count() - before }
}

// reportNext reports a kairos_next of one client beside its floors.
func (f floors) reportNext(b *testing.B, next samples) {
	b.Helper()
	b.ReportMetric(next.p50(), "p50-ms")
	b.ReportMetric(next.percentile(99), "p99-ms")
	b.ReportMetric(f.call.p50(), "floor-call-ms")
	b.ReportMetric(f.durable.p50(), "floor-commit-ms")
	b.ReportMetric(f.ofDrivers(), "floor-drivers-ms")
	b.ReportMetric(f.made, "driver-calls")
	b.ReportMetric(next.p50()/f.sum(), "x-floors")
	b.ReportMetric(0, "ns/op")
}

// addNext adds its figures.
func (f floors) addNext(over string, next samples) {
	name := "kairos_next over " + over + ", 1 client, "
	measured.add(most(name+"p50", next.p50(), "ms", 2))
	measured.add(most(name+"p99", next.percentile(99), "ms", 8))
	measured.add(most(name+"p50 by its floors", next.p50()/f.sum(), "x", 1.2).
		over("call %.2f + commit %.2f + %.1f driver calls %.2f ms", f.call.p50(), f.durable.p50(), f.made, f.ofDrivers()))
}

// committer returns one durable commit of one row, as bare as it gets.
func committer(b *testing.B, dir string) func() {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, '')"); err != nil {
		b.Fatal(err)
	}
	update, err := db.Prepare("UPDATE t SET v = ? WHERE id = 1")
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	return func() {
		n++
		if _, err := update.Exec(strings.Repeat("x", 2000) + fmt.Sprint(n)); err != nil {
			b.Fatal(err)
		}
	}
}

// driverCalls are the calls of callsOn, on drivers of its own.
func driverCalls(b *testing.B) func() {
	b.Helper()
	dir := filepath.Join(programs(b), "drivers")
	lock, err := driverhost.ReadLock(filepath.Join(dir, "drivers.lock"))
	if err != nil {
		b.Fatal(err)
	}
	host := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{})
	b.Cleanup(func() { _ = host.Close() })
	set, err := host.Load(driverhost.Config{Dir: dir, Lock: lock})
	if err != nil {
		b.Fatal(err)
	}
	shell, _ := set.Challenge("shell")
	agent, _ := set.Capability("agent", 0)
	return callsOn(b, shell, agent)
}

// bareCalls is how many calls callsOn makes.
const bareCalls = 4

// callsOn returns the calls by which a step is solved on these drivers: to ask what it
// needs and to show it, to read the solution and to judge it. No two steps are the
// same, so that every call reaches its process; a server remembers the first two.
func callsOn(b *testing.B, shell driver.Challenge, agent driver.Capability) func() {
	b.Helper()
	ctx := context.Background()
	step := driver.Step{Protocol: "Bench", Label: "One", Text: "## One\n\nRun it.", Index: 1, Count: 2}
	return func() {
		step.Index++
		step.Count++
		req := driver.AdvanceRequest{Challenge: json.RawMessage(`{"type":"shell","shell":{"cmd":"true"}}`), Step: step}
		need, err := shell.Advance(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		in := need.NeedInput[0]
		if _, err := agent.Render(ctx, driver.RenderRequest{Input: in, Step: step}); err != nil {
			b.Fatal(err)
		}
		read, err := agent.Interpret(ctx, driver.InterpretRequest{Input: in, Step: step, Raw: json.RawMessage(
			`{"type":"shell","nonce":"00000000000000000000000000000000","shell":{"exit_code":0,"stdout":"ok","duration_seconds":0.1}}`)})
		if err != nil || read.Answer == nil {
			b.Fatal(err, read)
		}
		judged := req
		read.Answer.InputID = in.ID
		judged.Answers = []driver.Answer{*read.Answer}
		if res, err := shell.Advance(ctx, judged); err != nil || res.Accepted == nil {
			b.Fatal(err, res)
		}
	}
}

// children lists the processes that a process started (Linux).
func children(b *testing.B, pid int) string {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, t := range tasks {
		if kids, err := os.ReadFile(t); err == nil {
			all = append(all, strings.Fields(string(kids))...)
		}
	}
	return strings.Join(all, " ")
}
