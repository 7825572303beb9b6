package mcp_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// kinds are types of challenges that change while the server runs.
type kinds struct {
	mu   sync.Mutex // guards list
	list []string
}

func (k *kinds) present() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.list)
}

func (k *kinds) become(list ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = list
}

func (w *wire) listsType(name string) bool {
	w.t.Helper()
	return strings.Contains(string(w.tools()["kairos_next"].InputSchema), `"`+name+`"`)
}

func TestSolutionTypesFollowTheDrivers(t *testing.T) {
	types := &kinds{list: []string{"shell"}}
	cfg := config()
	cfg.ChallengeTypes = types.present
	s, in, out := newServed(t, cfg, newDirector())
	w := speak(t, in, out)
	w.initialize(`{}`)
	if w.listsType("weather") {
		t.Fatal("weather is listed before it is there")
	}
	types.become("shell", "weather")
	s.Refresh()
	w.until("notice", func(m msg) bool { return m.Method == "notifications/tools/list_changed" })
	if !w.listsType("weather") {
		t.Error("weather is not listed")
	}
	types.become()
	if s.Refresh(); !w.listsType("weather") {
		t.Error("Refresh without any types lists none, want the last list kept")
	}
}

func TestClientsAreToldOnceAndOnlyOfChanges(t *testing.T) {
	types := &kinds{list: []string{"shell"}}
	cfg := config()
	cfg.ChallengeTypes = types.present
	s, in, out := newServed(t, cfg, newDirector())
	w := speak(t, in, out)
	w.initialize(`{}`)
	types.become("shell", "weather")
	for range 3 {
		s.Refresh()
	}
	w.notifiedOnce("notifications/tools/list_changed")
}

// notifiedOnce waits for a notification and fails if there is another one.
func (w *wire) notifiedOnce(method string) {
	w.t.Helper()
	w.until(method, func(m msg) bool { return m.Method == method })
	w.notNotified(method)
}

// notNotified fails if there is a notification. One that is still on its way is found
// by the next notifiedOnce.
func (w *wire) notNotified(method string) {
	w.t.Helper()
	w.reply(w.request("ping", obj{}))
	for _, m := range w.kept {
		if m.Method == method {
			w.t.Errorf("one more %s", method)
		}
	}
}

func TestOnlyLegacyClientsArePromisedTheNotice(t *testing.T) {
	w := dial(t, config(), newDirector())
	id := w.request("initialize", obj{
		"protocolVersion": "2025-11-25", "capabilities": obj{}, "clientInfo": obj{"name": "old", "version": "1"},
	})
	got := w.reply(id)
	for _, promise := range []string{`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`} {
		if !strings.Contains(string(got.Result), promise) {
			t.Errorf("initialize = %s, want %s", got.Result, promise)
		}
	}
	id = w.request("server/discover", obj{"_meta": modernMeta(`{}`)})
	if got := w.reply(id); strings.Contains(string(got.Result), "listChanged") {
		t.Errorf("server/discover = %s, want no promise", got.Result)
	}
}

// tracing notes the trace that the engine is called with.
type tracing struct {
	mcpserver.Engine
	traces chan string
}

func (e tracing) Spaces(ctx context.Context, c access.Caller, in api.SpacesRequest) (api.SpacesReply, error) {
	e.traces <- driver.TraceOf(ctx)
	return e.Engine.Spaces(ctx, c, in)
}

func TestEveryCallHasATrace(t *testing.T) {
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	e := tracing{newDirector(), make(chan string, 1)}
	w := dial(t, config(), e)
	w.initialize(`{}`)
	call := func(meta string) string {
		w.reply(w.request("tools/call", obj{"name": "kairos_spaces", "arguments": obj{}, "_meta": json.RawMessage(meta)}))
		return <-e.traces
	}
	if got := call(`{"traceparent":"` + theirs + `"}`); got != theirs {
		t.Errorf("trace = %q, want the client's", got)
	}
	seen := map[string]bool{theirs: true}
	for _, meta := range []string{`{}`, `{"traceparent":"rubbish"}`, `{"traceparent":7}`} {
		got := call(meta)
		if len(got) != len(theirs) || seen[got] {
			t.Errorf("trace for %s = %q, want a new sound one", meta, got)
		}
		seen[got] = true
	}
}

func TestTheFirstCallIsToldOnce(t *testing.T) {
	first := make(chan struct{}, 9)
	cfg := config()
	cfg.FirstCall = func() { first <- struct{}{} }
	w := dial(t, cfg, newDirector())
	w.initialize(`{}`)
	w.tools()
	if len(first) != 0 {
		t.Error("listing tools counts as a call")
	}
	for range 3 {
		w.reply(w.call("kairos_spaces", obj{}))
	}
	if len(first) != 1 {
		t.Errorf("told of %d first calls", len(first))
	}
}
