package bench_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// The eras of the protocol that are measured.
const (
	legacyEra = mcp.ProtocolVersion20251125
	modernEra = mcp.ProtocolVersion20260728
)

var eras = []string{legacyEra, modernEra}

// Modes in which this binary serves as the baseline of calls over HTTP.
const (
	noopHTTP = "http" // a tool that does nothing, served by mcp-go's own HTTP server
	noopOurs = "ours" // our whole wire with an engine that does nothing
)

// serveFloor is such a process. It says on stdout where it listens and ends
// with its stdin.
func serveFloor(which string) error {
	h := http.Handler(nil)
	switch which {
	case noopHTTP:
		h = server.NewStreamableHTTPServer(noopServer())
	case noopOurs:
		api, err := ourWire()
		if err != nil {
			return err
		}
		h = api
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// idleEngine answers every kairos_next with the same reply.
type idleEngine struct{ mcpserver.Engine }

func (idleEngine) Next(context.Context, access.Caller, api.NextRequest) (director.Round, error) {
	return director.Round{Reply: &api.StepReply{
		MustObey: true, Challenge: api.Challenge{Type: "shell"}, RunID: "r", Message: strings.Repeat("x", 1000),
	}}, nil
}

func (idleEngine) Unfinished(context.Context, access.Caller) (*director.Unfinished, error) {
	return nil, nil
}

func ourWire() (http.Handler, error) {
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	s, err := mcpserver.New(mcpserver.Config{
		Version: "1", Principal: "local", Space: "space:local",
		ChallengeTypes: func() []string { return []string{"shell"} },
	}, idleEngine{}, log)
	if err != nil {
		return nil, err
	}
	return rest.New(rest.Config{
		Version: "1", Engine: idleEngine{}, MCP: s.HTTP(), Principal: "local", Space: "space:local",
		Access: rest.Access{Local: true}, Limits: rest.Limits{PerMinute: -1},
	}, log)
}

// remote is a server over HTTP in a process of its own.
type remote struct {
	cmd *exec.Cmd
	in  io.Closer // nil: it is stopped with a signal
	url string
}

func (r *remote) pid() int { return r.cmd.Process.Pid }

func (r *remote) stop(b *testing.B) {
	b.Helper()
	if r.in != nil {
		_ = r.in.Close()
	} else if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		b.Error(err)
	}
	if err := r.cmd.Wait(); err != nil {
		b.Error(err)
	}
}

func floorServer(b *testing.B, which string) *remote {
	b.Helper()
	p := start(b, []string{noopEnv + "=" + which}, os.Args[0])
	at, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &remote{cmd: p.cmd, in: p.in, url: "http://" + strings.TrimSpace(at) + "/mcp"}
}

// serveKairos starts `kairos serve --http` of the programs in bin and returns
// once it is ready. It logs every request, as it does by default, to a file.
func serveKairos(b *testing.B, bin, dir string, env ...string) *remote {
	b.Helper()
	r := launchKairos(b, bin, dir, env...)
	r.awaitReady(b)
	return r
}

func launchKairos(b *testing.B, bin, dir string, env ...string) *remote {
	b.Helper()
	log, err := os.Create(filepath.Join(dir, "kairos.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	at := freeAddress(b)
	r := &remote{url: "http://" + at + "/mcp", cmd: exec.Command(filepath.Join(bin, "kairos"), "serve", "--http", at)}
	r.cmd.Env = append(os.Environ(), "KAIROS_DB="+filepath.Join(dir, "kairos.db"), "KAIROS_DRIVERS_DIR="+filepath.Join(bin, "drivers"), "METRICS_PORT=0")
	r.cmd.Env = append(r.cmd.Env, env...)
	r.cmd.Stderr = log
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return r
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// awaitReady asks the server until it says that it is ready.
func (r *remote) awaitReady(b *testing.B) {
	b.Helper()
	url := strings.TrimSuffix(r.url, "/mcp") + "/readyz"
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		res, err := http.Get(url)
		if err != nil {
			continue // does not listen yet
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	b.Fatalf("%s does not become ready", r.url)
}

// agent is a client of a server over HTTP.
type agent struct {
	url, era string
	session  string // of the legacy era
	http     *http.Client
	lean     *lean // for its calls; nil: none was made
	id       int
	can      map[string]any // its capabilities
}

// newAgent introduces a client of the era that can do nothing to a server.
func newAgent(b testing.TB, r *remote, era string, client *http.Client) *agent {
	b.Helper()
	return introduce(b, r, era, client, map[string]any{})
}

// introduce introduces a client with capabilities to a server.
func introduce(b testing.TB, r *remote, era string, client *http.Client, can map[string]any) *agent {
	b.Helper()
	a := &agent{url: r.url, era: era, http: client, can: can}
	if era == modernEra {
		return a
	}
	header, _ := a.post(b, a.message("initialize", map[string]any{
		"protocolVersion": era, "capabilities": can, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	}), "initialize", "")
	if a.session = header.Get(mcp.HeaderSessionID); a.session == "" {
		b.Fatalf("initialize at %s: no session", a.url)
	}
	return a
}

func (a *agent) message(method string, params map[string]any) []byte {
	a.id++
	if a.era == modernEra {
		params["_meta"] = map[string]any{
			mcp.MetaKeyProtocolVersion:    modernEra,
			mcp.MetaKeyClientInfo:         map[string]any{"name": "bench", "version": "1"},
			mcp.MetaKeyClientCapabilities: a.can,
		}
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.id, "method": method, "params": params})
	if err != nil {
		panic(err) // of strings and maps
	}
	return text
}

// post sends a message and reads the whole reply.
func (a *agent) post(b testing.TB, message []byte, method, name string) (http.Header, []byte) {
	res := a.send(b, message, method, name)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.Header, body
}

// send sends a message and leaves its reply to be read.
func (a *agent) send(b testing.TB, message []byte, method, name string) *http.Response {
	req, err := http.NewRequest(http.MethodPost, a.url, bytes.NewReader(message))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(mcp.HeaderProtocolVersion, a.era)
	if a.session != "" {
		req.Header.Set(mcp.HeaderSessionID, a.session)
	}
	if a.era == modernEra {
		req.Header.Set(mcp.HeaderMethod, method)
		req.Header.Set(mcp.HeaderName, name)
	}
	res, err := a.http.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	return res
}

// call calls a tool; took is how long that was for this client, without what it
// does with the reply.
func (a *agent) call(b testing.TB, tool string, arguments map[string]any) (r stepReply, took time.Duration) {
	message := a.message("tools/call", map[string]any{"name": tool, "arguments": arguments})
	if a.lean == nil {
		a.dial(b)
	}
	var headers []string
	if a.era == modernEra {
		headers = []string{mcp.HeaderMethod + ": tools/call", mcp.HeaderName + ": " + tool}
	}
	begin := time.Now()
	body, err := a.lean.post(message, headers...)
	took = time.Since(begin)
	if err != nil {
		b.Fatalf("%s: %v", tool, err)
	}
	text := body
	if _, data, events := bytes.Cut(body, []byte("\ndata: ")); events {
		text = data
	}
	// The structured content is the last field of a result, whose text is the same JSON
	// once more.
	if bytes.HasPrefix(text, []byte(`{"jsonrpc":"2.0","id":`)) && !bytes.Contains(text, []byte(`"isError":true`)) {
		if _, structured, ok := bytes.Cut(text, []byte(`,"structuredContent":`)); ok {
			if err := json.NewDecoder(bytes.NewReader(structured)).Decode(&r); err != nil {
				b.Fatalf("%s: %v", tool, err)
			}
			return r, took
		}
		if bytes.Contains(text, []byte(`"result":{`)) {
			return r, took // it has none
		}
	}
	b.Fatalf("%s: %s", tool, body)
	return r, took
}

func (a *agent) dial(b testing.TB) {
	headers := []string{
		"Content-Type: application/json", "Accept: application/json, text/event-stream", mcp.HeaderProtocolVersion + ": " + a.era,
	}
	if a.session != "" {
		headers = append(headers, mcp.HeaderSessionID+": "+a.session)
	}
	conn, err := dialLean(a.url, headers...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.conn.Close() })
	a.lean = conn
}

func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 128
	return &http.Client{Transport: t}
}

// processCPU is the processor time of a process and of its children so far (Linux).
func processCPU(b *testing.B, pid int) (own, drivers time.Duration) {
	b.Helper()
	own = cpuOf(b, strconv.Itoa(pid))
	for kid := range strings.FieldsSeq(children(b, pid)) {
		drivers += cpuOf(b, kid)
	}
	return own, drivers
}

func cpuOf(b *testing.B, pid string) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		b.Skipf("no figures of processes here: %v", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	user, err := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err := cmp.Or(err, err2); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
}
