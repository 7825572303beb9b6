package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
	cfg.StateKey = nil // a worker must not open what another process has sealed
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
		if good := state == open.RequestState; good != (m.Error == nil) {
			t.Errorf("state %q, sealed by the server %v: reply = %v", state, good, m)
		}
	})
}
