package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; nothing waits that long unless it fails.
const patience = time.Minute

func config() mcpserver.Config {
	return mcpserver.Config{
		Version: "v1.2.3", ChallengeTypes: func() []string { return []string{"shell", "mcp", "user_input", "comment"} },
		Principal: "local", Space: "space:personal", StateKeys: func() ([][32]byte, error) { return [][32]byte{{1}}, nil },
		ProgressEvery: time.Millisecond,
	}
}

// serve runs a server over pipes until the test ends and gives its streams.
func serve(t testing.TB, cfg mcpserver.Config, e mcpserver.Engine) (in *io.PipeWriter, out *io.PipeReader) {
	t.Helper()
	_, in, out = newServed(t, cfg, e)
	return in, out
}

// newServed is serve for tests that call the server itself.
func newServed(t testing.TB, cfg mcpserver.Config, e mcpserver.Engine) (s *mcpserver.Server, in *io.PipeWriter, out *io.PipeReader) {
	t.Helper()
	s, in, out, ended := piped(context.Background(), t, cfg, e)
	t.Cleanup(func() {
		in.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("ServeStdio after the input ended = %v, want nil", err)
			}
		case <-time.After(patience):
			t.Error("ServeStdio did not end with its input")
		}
		out.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s, in, out
}

// piped is newServed for tests that end the server: ended gets what ServeStdio returns.
func piped(ctx context.Context, t testing.TB, cfg mcpserver.Config, e mcpserver.Engine) (s *mcpserver.Server, in *io.PipeWriter, out *io.PipeReader, ended <-chan error) {
	t.Helper()
	s, err := mcpserver.New(cfg, e, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	inR, in := io.Pipe()
	out, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		defer outW.Close()
		done <- s.ServeStdio(ctx, inR, outW)
	}()
	return s, in, out, done
}

func testLog(t testing.TB) *slog.Logger {
	if os.Getenv("KAIROS_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// wire is a client that speaks raw JSON lines.
type wire struct {
	t    testing.TB
	in   io.Writer
	msgs chan msg
	kept []msg
	id   int
	// called are the tools of the calls, by request id.
	called map[string]string
}

// msg is any message of the server.
type msg struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (m msg) String() string {
	return fmt.Sprintf("{id %s, method %q, params %.200s, result %.200s, error %+v}", m.ID, m.Method, m.Params, m.Result, m.Error)
}

func dial(t testing.TB, cfg mcpserver.Config, e mcpserver.Engine) *wire {
	in, out := serve(t, cfg, e)
	return speak(t, in, out)
}

func speak(t testing.TB, in io.Writer, out io.Reader) *wire {
	w := &wire{t: t, in: in, msgs: make(chan msg, 1000)}
	go w.read(out)
	return w
}

// read takes messages until the server hangs up.
func (w *wire) read(out io.Reader) {
	defer close(w.msgs)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m msg
		if err := json.Unmarshal(text, &m); err != nil {
			w.t.Errorf("the server wrote %q, which is not JSON: %v", text, err)
		}
		w.msgs <- m
	}
}

func (w *wire) raw(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatalf("write to server: %v", err)
	}
}

func (w *wire) send(v any) {
	w.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	w.raw(string(text))
}

type obj = map[string]any

// request sends a request and returns its id.
func (w *wire) request(method string, params any) string {
	w.t.Helper()
	w.id++
	if p, ok := params.(obj); ok && method == "tools/call" {
		if w.called == nil {
			w.called = map[string]string{}
		}
		w.called[fmt.Sprint(w.id)], _ = p["name"].(string)
	}
	w.send(obj{"jsonrpc": "2.0", "id": w.id, "method": method, "params": params})
	return fmt.Sprint(w.id)
}

// until returns the first message that fits; others wait for their own until.
func (w *wire) until(what string, fits func(msg) bool) msg {
	w.t.Helper()
	for i, m := range w.kept {
		if fits(m) {
			w.kept = append(w.kept[:i], w.kept[i+1:]...)
			return m
		}
	}
	deadline := time.After(patience)
	for {
		select {
		case m, ok := <-w.msgs:
			if !ok {
				w.t.Fatalf("the server hung up before %s", what)
			}
			if fits(m) {
				return m
			}
			w.kept = append(w.kept, m)
		case <-deadline:
			w.t.Fatalf("no %s; %d other messages, the first: %v", what, len(w.kept), w.kept[:min(3, len(w.kept))])
		}
	}
}

func (w *wire) reply(id string) msg {
	w.t.Helper()
	return w.until("reply to "+id, func(m msg) bool { return m.Method == "" && string(m.ID) == id })
}

func (w *wire) question(method string) msg {
	w.t.Helper()
	return w.until(method, func(m msg) bool { return m.Method == method && m.ID != nil })
}

func (w *wire) answer(id json.RawMessage, result string) {
	w.t.Helper()
	w.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// initialize makes the client one of the legacy era.
func (w *wire) initialize(capabilities string) {
	w.t.Helper()
	id := w.request("initialize", obj{
		"protocolVersion": "2025-11-25", "capabilities": json.RawMessage(capabilities),
		"clientInfo": obj{"name": "old", "version": "1"},
	})
	if m := w.reply(id); m.Error != nil {
		w.t.Fatalf("initialize: %v", m.Error)
	}
	w.raw(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// call calls a tool as a legacy client.
func (w *wire) call(tool string, args any) string {
	w.t.Helper()
	return w.request("tools/call", obj{"name": tool, "arguments": args})
}

// modern calls a tool as a 2026-07-28 client; extra are further params.
func (w *wire) modern(capabilities, tool string, args any, extra obj) string {
	w.t.Helper()
	params := obj{"name": tool, "arguments": args, "_meta": modernMeta(capabilities)}
	for k, v := range extra {
		params[k] = v
	}
	return w.request("tools/call", params)
}

func modernMeta(capabilities string) obj {
	return obj{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
		"io.modelcontextprotocol/clientInfo":         obj{"name": "new", "version": "2"},
	}
}

// toolResult is a tools/call result.
type toolResult struct {
	ResultType string `json:"resultType"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured    json.RawMessage `json:"structuredContent"`
	IsError       bool            `json:"isError"`
	RequestState  string          `json:"requestState"`
	InputRequests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
}

func (w *wire) result(id string) toolResult {
	w.t.Helper()
	m := w.reply(id)
	if m.Error != nil {
		w.t.Fatalf("JSON-RPC error %d: %s", m.Error.Code, m.Error.Message)
	}
	r := decode[toolResult](w.t, m.Result)
	if r.ResultType != "input_required" {
		fitsOutputSchema(w.t, w.called[id], r.Structured)
	}
	return r
}

// outputSchemas are what the server declares of the replies of each tool.
var outputSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	s, err := mcpserver.New(config(), newDirector(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	compiled := map[string]*jsonschema.Schema{}
	for _, tool := range s.Tools() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.Output))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("mem:///"+tool.Name, doc); err != nil {
			return nil, err
		}
		if compiled[tool.Name], err = c.Compile("mem:///" + tool.Name); err != nil {
			return nil, err
		}
	}
	return compiled, nil
})

// fitsOutputSchema checks a reply of any test as the official clients do.
func fitsOutputSchema(t testing.TB, tool string, structured json.RawMessage) {
	t.Helper()
	schemas, err := outputSchemas()
	if err != nil {
		t.Fatal(err)
	}
	if schemas[tool] == nil {
		tool = "kairos_begin" // called beside the wire; it has the fields of kairos_next, too
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(structured))
	if err != nil {
		t.Fatalf("%s: structured content %s: %v", tool, structured, err)
	}
	if err := schemas[tool].Validate(v); err != nil {
		t.Errorf("%s: structured content %s: %v", tool, structured, err)
	}
}

// step is the reply of begin and next.
type step struct {
	MustObey  bool   `json:"must_obey"`
	ErrorCode string `json:"error_code"`
	RunID     string `json:"run_id"`
	Message   string `json:"message"`
	// RetryAfter is set while the run waits for a driver.
	RetryAfter      *float64 `json:"retry_after"`
	Progress        *float64 `json:"progress"`
	ProgressMessage string   `json:"progress_message"`
	Solved          []struct {
		Output json.RawMessage `json:"output"`
	} `json:"solved"`
}

func (w *wire) step(id string) step {
	w.t.Helper()
	r := w.result(id)
	if r.IsError || len(r.Content) != 1 {
		w.t.Fatalf("result is not a step: %s", r.Structured)
	}
	return decode[step](w.t, r.Structured)
}

func decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("decode %q: %v", raw, err)
	}
	return v
}
