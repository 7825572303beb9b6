package mcp_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// oversized are requests with one text, of those that say who a client is and what its
// request is like, that is far too long.
func oversized(text string) map[string]string {
	handshake := func(change obj) string {
		params := obj{"protocolVersion": "2025-11-25", "capabilities": obj{}, "clientInfo": obj{"name": "n", "version": "1"}}
		maps.Copy(params, change)
		return rpc("large", "initialize", params)
	}
	meta := func(key string, value any) string {
		m := modernMeta(`{}`)
		m[key] = value
		return rpc("large", "tools/call", obj{"name": "kairos_spaces", "arguments": obj{}, "_meta": m})
	}
	return map[string]string{
		"clientInfo.name":          handshake(obj{"clientInfo": obj{"name": text, "version": "1"}}),
		"clientInfo.version":       handshake(obj{"clientInfo": obj{"name": "n", "version": text}}),
		"clientInfo of any field":  handshake(obj{"clientInfo": obj{"name": "n", "icons": []obj{{"src": text}}}}),
		"capabilities":             handshake(obj{"capabilities": obj{"experimental": obj{"x": text}}}),
		"protocolVersion":          handshake(obj{"protocolVersion": text}),
		"unknown parameter":        handshake(obj{"x": text}),
		"_meta of a handshake":     handshake(obj{"_meta": obj{"x": text}}),
		"method":                   rpc("large", text, obj{}),
		"id":                       rpc(text, "ping", obj{}),
		"log level":                rpc("large", "logging/setLevel", obj{"level": text}),
		"notification":             `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"x":"` + text + `"}}`,
		"modern clientInfo":        meta("io.modelcontextprotocol/clientInfo", obj{"name": text, "version": "1"}),
		"modern capabilities":      meta("io.modelcontextprotocol/clientCapabilities", obj{"experimental": obj{"x": text}}),
		"modern version":           meta("io.modelcontextprotocol/protocolVersion", text),
		"modern log level":         meta("io.modelcontextprotocol/logLevel", text),
		"progress token":           meta("progressToken", text),
		"traceparent":              meta("traceparent", text),
		"tool name":                rpc("large", "tools/call", obj{"name": text, "arguments": obj{}}),
		"requestState":             rpc("large", "tools/call", obj{"name": "kairos_spaces", "arguments": obj{}, "requestState": text, "_meta": modernMeta(`{}`)}),
		"arguments twice":          `{"jsonrpc":"2.0","id":"large","method":"tools/call","params":{"name":"kairos_spaces","arguments":{"x":"` + text + `"},"arguments":{}}}`,
		"discovery, _meta escaped": `{"jsonrpc":"2.0","id":"large","method":"server/discover","params":{"\u005fmeta":{"x":"` + text + `"}}}`,
	}
}

func TestWhatAClientSaysAboutItselfIsLimitedBeforeItIsDecoded(t *testing.T) {
	v := newSite(t, config(), newDirector()).visit(everything)
	w := dial(t, config(), newDirector())
	w.initialize(everything)
	for name, message := range oversized(strings.Repeat("x", 100<<10)) {
		t.Run(name, func(t *testing.T) {
			r := v.post(message, nil)
			refused := func(m msg) bool { return m.Error != nil }
			if got := r.until("a refusal", refused); r.status != http.StatusBadRequest || !strings.Contains(got.Error.Message, "limit is 65536") {
				t.Errorf("over HTTP = %d %v, want 400 that names the limit", r.status, got)
			}
			w.raw(message)
			if got := w.until("a refusal", refused); !strings.Contains(got.Error.Message, "limit is 65536") {
				t.Errorf("over stdio = %v, want an error that names the limit", got)
			}
		})
	}
	if got := w.request("ping", obj{}); w.reply(got).Error != nil {
		t.Error("the connection does not work after messages that were too large")
	}
}

func TestArgumentsAndAnswersMayBeLarge(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	d := newDirector(sample("how much?"))
	w := dial(t, config(), d)
	r := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	got := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(r, `{"model":"`+text+`"}`)))
	if len(got.Solved) != 1 || len(got.Solved[0].Output) < len(text) {
		t.Errorf("%d answers, want the large one", len(got.Solved))
	}
	if m := w.reply(w.call("kairos_mint", obj{"markdown_doc": text, "llm_model_id": "test"})); m.Error != nil {
		t.Errorf("a large document = %v", m)
	}
}

func TestAProgressTokenIsLikeAnID(t *testing.T) {
	for name, token := range map[string]any{"long": strings.Repeat("x", 2<<10), "object": obj{"a": 1}, "list": []int{1}, "true": true} {
		t.Run(name, func(t *testing.T) {
			d := newDirector()
			w := dial(t, config(), d)
			w.initialize(everything)
			id := w.request("tools/call", obj{"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": token}})
			if m := w.reply(id); m.Error != nil {
				t.Fatalf("call = %v", m)
			}
			if wait := d.lastCaller().CanWait; wait > time.Minute {
				t.Errorf("CanWait = %s: a token that cannot be repeated counts", wait)
			}
		})
	}
}
