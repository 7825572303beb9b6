package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

// FuzzLine sends any line: the server answers a later ping whatever it was.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kairos_next"}}`,
		`{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"error":null}`,
		`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"capabilities":{"elicitation":1}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"kairos_begin","_meta":{"progressToken":{}}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ping"}}`,
	} {
		f.Add(seed)
	}
	w := dial(f, config(), newDirector(elicit("sure?")))
	n := 0
	f.Fuzz(func(t *testing.T, line string) {
		w.t = t
		n++
		w.raw(strings.ReplaceAll(line, "\n", " "))
		w.ping(fmt.Sprintf(`"fuzz-ping-%d"`, n))
	})
}

// ping waits for its own reply and forgets all other messages.
func (w *wire) ping(id string) {
	w.t.Helper()
	w.raw(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	w.reply(id)
	w.kept = nil
}

// FuzzArguments sends any arguments to any tool: the reply is a result or a
// JSON-RPC error, and an invalid one never reaches the engine without its uri.
func FuzzArguments(f *testing.F) {
	tools := []string{
		"kairos_search", "kairos_begin", "kairos_next", "kairos_attest", "kairos_mint",
		"kairos_update", "kairos_delete", "kairos_dump", "kairos_spaces",
	}
	for i, tool := range tools {
		args, err := json.Marshal(goodArgs[tool])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), string(args))
	}
	f.Add(uint8(2), `{"uri":"`+stepURI+`","URI":"x","solution":[[]]}`)
	f.Add(uint8(1), `{"uri":null,"input":null}`)
	d := newDirector()
	w := dial(f, config(), d)
	f.Fuzz(func(t *testing.T, tool uint8, args string) {
		w.t = t
		if !json.Valid([]byte(args)) {
			return
		}
		line, err := json.Marshal(obj{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": obj{
			"name": tools[int(tool)%len(tools)], "arguments": json.RawMessage(args),
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.raw(string(line))
		m := w.reply("1")
		if (m.Error == nil) == (m.Result == nil) {
			t.Errorf("reply = %v, want a result or an error", m)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.begins, d.nexts, d.mints, d.callers = nil, nil, nil, nil
		clear(d.runs)
	})
}

// FuzzRequestState sends any state: it opens only if the server sealed it.
func FuzzRequestState(f *testing.F) {
	d := newDirector(elicit("sure?"))
	cfg := config()
	cfg.StateKeys = nil // a worker must not open what another process has sealed
	w := dial(f, cfg, d)
	open := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	f.Add(open.RequestState)
	f.Add(open.RequestState + "=")
	f.Add(open.RequestState[1:])
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, state string) {
		w.t = t
		extra := answers(open, `{"action":"cancel"}`)
		extra["requestState"] = state
		m := w.reply(w.modern(everything, "kairos_begin", beginArgs, extra))
		// Without a state it is a new call.
		if good := state == open.RequestState || state == ""; good != (m.Error == nil) {
			t.Errorf("state %q, sealed by the server %v: reply = %v", state, good, m)
		}
	})
}

// FuzzHTTP sends any request: the server answers it with a status and, where it
// says something, with JSON or events, and serves the next one.
func FuzzHTTP(f *testing.F) {
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":` +
		`"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, body := range []string{
		``, `{}`, `[]`, `null`, ping, modern, `[` + ping + `]`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kairos_begin","arguments":{"uri":"` + stepURI + `"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add("POST", "application/json, text/event-stream", "application/json", "", "", "", "", body)
		f.Add("POST", "*/*;q=0.1", "application/json", "SESSION", "2025-11-25", "", "", body)
		f.Add("POST", "*/*", "application/json;charset", "x", "2026-07-28", "tools/list", "=?base64?eA==?=", body)
	}
	f.Add("GET", "text/event-stream", "", "SESSION", "", "", "", "")
	f.Add("DELETE", "", "", "y", "2026-07-28", "", "", "")
	cfg := config()
	cfg.PlainWait, cfg.ProgressWait, cfg.MaxSessions = time.Millisecond, time.Millisecond, 50
	d := newDirector(elicit("sure?"))
	s, err := mcpserver.New(cfg, d, testLog(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	session := direct{t: f, Server: s}.initialize()
	f.Fuzz(func(t *testing.T, method, accept, kind, id, version, rpcMethod, name, body string) {
		if !token(method) {
			return
		}
		here := direct{t: t, Server: s}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // of streams
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
		for key, value := range map[string]string{
			"Accept": accept, "Content-Type": kind, "Mcp-Protocol-Version": version, "Mcp-Method": rpcMethod, "Mcp-Name": name,
			"Mcp-Session-Id": strings.ReplaceAll(id, "SESSION", session),
		} {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		s.HTTP().ServeHTTP(w, r)
		stream := w.Header().Get("Content-Type") == "text/event-stream"
		if text := w.Body.Bytes(); len(text) > 0 && !stream && !json.Valid(text) || w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q = %d %q, want JSON and no internal error", method, body, w.Code, text)
		}
		if method == http.MethodDelete || w.Code == http.StatusNotFound {
			session = here.initialize()
		}
		if w := here.do(t.Context(), http.MethodPost, "", rpc(1, "tools/call", obj{"name": "kairos_spaces", "arguments": obj{}})); w.Code != http.StatusOK {
			t.Fatalf("the next call = %d %s", w.Code, w.Body)
		}
		for len(d.continued) > 0 {
			<-d.continued
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.begins, d.nexts, d.mints, d.callers = nil, nil, nil, nil
	})
}

// token reports whether text can be an HTTP method.
func token(text string) bool {
	for _, c := range []byte(text) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return text != ""
}
