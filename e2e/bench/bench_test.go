// Package bench_test measures the program as a client sees it, each figure
// beside its floors, which are measured in the same run because machines differ
// and are noisy. `make bench` builds the program and runs it.
package bench_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
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
// floors: a tool call that does nothing, one durable commit, and the four
// driver calls it makes (read the solution, judge it, ask what the next step
// needs, show it).
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
	reportNext(b, next, call, durable, drivers)
	addNext("stdio", next, call, durable, drivers)
}

// reportNext reports a kairos_next of one client beside its floors.
func reportNext(b *testing.B, next, call, durable, drivers samples) {
	b.Helper()
	b.ReportMetric(next.p50(), "p50-ms")
	b.ReportMetric(next.percentile(99), "p99-ms")
	b.ReportMetric(call.p50(), "floor-call-ms")
	b.ReportMetric(durable.p50(), "floor-commit-ms")
	b.ReportMetric(drivers.p50(), "floor-drivers-ms")
	b.ReportMetric(next.p50()/(call.p50()+durable.p50()+drivers.p50()), "x-floors")
	b.ReportMetric(0, "ns/op")
}

// addNext adds its figures.
func addNext(over string, next, call, durable, drivers samples) {
	name := "kairos_next over " + over + ", 1 client, "
	measured.add(most(name+"p50", next.p50(), "ms", 2))
	measured.add(most(name+"p99", next.percentile(99), "ms", 8))
	measured.add(most(name+"p50 by its floors", next.p50()/(call.p50()+durable.p50()+drivers.p50()), "x", 1.2).
		over("call %.2f + commit %.2f + drivers %.2f ms", call.p50(), durable.p50(), drivers.p50()))
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

// driverCalls returns the calls that one kairos_next makes, on drivers of its own.
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

// callsOn returns the calls that one kairos_next makes of these drivers: to ask
// what the next step needs and to show it, to read the solution and to judge it.
// No two steps are the same, so that every call reaches its process.
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
