package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

func TestDeletedSessionIsOver(t *testing.T) {
	d := newDirector(elicit("sure?"))
	v := newSite(t, config(), d).visit(everything)
	get := v.do(http.MethodGet, nil, nil)
	id, r := v.call("kairos_begin", beginArgs)
	r.question("elicitation/create")
	if r := v.do(http.MethodDelete, nil, nil); r.status != http.StatusOK {
		t.Errorf("DELETE = %d, want 200", r.status)
	}
	get.over()
	if m := r.reply(id); m.Error == nil {
		t.Errorf("call that waited = %v, want an error", m)
	}
	if r := v.post(rpc(1, "ping", obj{}), nil); r.status != http.StatusNotFound {
		t.Errorf("call after DELETE = %d, want 404", r.status)
	}
	if len(d.continued) != 0 {
		t.Error("the engine was told an answer that nobody gave")
	}
}

func TestWhoOpensManySessionsEndsTheirOwn(t *testing.T) {
	cfg := config()
	cfg.MaxSessions, cfg.MaxSessionsPerClient, cfg.Identify = 4, 4, asked
	s := newSite(t, cfg, newDirector())
	visitAs := func(who string) *visitor {
		v := &visitor{site: s, who: who}
		v.initialize(everything)
		return v
	}
	quiet := visitAs("ada")
	busy := []*visitor{visitAs("bob"), visitAs("bob"), visitAs("bob"), visitAs("bob"), visitAs("bob")}
	kept := func(v *visitor) bool { return s.server.HasSession(v.session) }
	if !kept(quiet) {
		t.Error("the session of ada, who has one, made room for bob, who has all others")
	}
	if kept(busy[0]) {
		t.Error("the first session of bob is kept")
	}
	late := visitAs("eve")
	if !kept(late) {
		t.Error("eve's session is not kept: who has none gets room from who has most")
	}
	if kept(busy[2]) || !kept(busy[3]) {
		t.Error("the longest idle session of bob is not the one that made room")
	}
	for _, v := range []*visitor{quiet, busy[0], busy[2]} {
		if got := v.post(rpc("alive", "ping", obj{}), nil).status; got != http.StatusOK {
			t.Errorf("a client whose session had to make room = %d, want 200", got)
		}
	}
}

func TestFullServerEvictsTheLongestIdleSession(t *testing.T) {
	cfg := config()
	cfg.MaxSessions, cfg.MaxSessionsPerClient, cfg.PlainWait = 3, 3, time.Millisecond
	s := newSite(t, cfg, newDirector(elicit("sure?")))
	asking, streaming, idle := s.visit(everything), s.visit(everything), s.visit(everything)
	streaming.do(http.MethodGet, nil, nil)
	id, r := asking.call("kairos_begin", beginArgs)
	question := r.question("elicitation/create")
	r.reply(id) // the person may take longer than the call

	next := s.visit(everything)
	for what, check := range map[string]struct {
		v    *visitor
		want bool
	}{"with a question": {asking, true}, "with a stream": {streaming, true}, "idle": {idle, false}, "new": {next, true}} {
		if got := s.server.HasSession(check.v.session); got != check.want {
			t.Errorf("session %s is kept: %t, want %t", what, got, check.want)
		}
	}
	asking.answer(question.ID, accepted)
	for _, v := range []*visitor{asking, next} {
		v.do(http.MethodGet, nil, nil)
	}
	full := &visitor{site: s}
	r = full.post(rpc(0, "initialize", obj{"protocolVersion": "2025-11-25", "capabilities": obj{}, "clientInfo": obj{}}), nil)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("initialize with all sessions in use = %d %v, want 503 with Retry-After", r.status, r.header)
	}
}

// direct speaks to a server without a network, so that time can be a bubble's.
type direct struct {
	t testing.TB
	*mcpserver.Server
	at string // the address it calls from; empty: that of all tests
}

func (d direct) from(address string) direct {
	d.at = address
	return d
}

func (d direct) do(ctx context.Context, method, session, body string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if d.at != "" {
		r.RemoteAddr = d.at
	}
	w := httptest.NewRecorder()
	d.HTTP().ServeHTTP(w, r)
	return w
}

func (d direct) initialize() string {
	d.t.Helper()
	w := d.do(d.t.Context(), http.MethodPost, "", rpc(0, "initialize", obj{
		"protocolVersion": "2025-11-25", "capabilities": obj{"elicitation": obj{}}, "clientInfo": obj{"name": "old", "version": "1"},
	}))
	return w.Header().Get("Mcp-Session-Id")
}

func (d direct) alive(session string) bool {
	return d.do(d.t.Context(), http.MethodPost, session, rpc("alive", "ping", obj{})).Code == http.StatusOK
}

// bubble serves in a bubble of time.
func bubble(t *testing.T, cfg mcpserver.Config, e mcpserver.Engine, f func(t *testing.T, d direct)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := mcpserver.New(cfg, e, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		f(t, direct{t: t, Server: s})
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

func TestIdleSessionsAreDroppedAndUsedOnesKept(t *testing.T) {
	cfg := config()
	cfg.SessionIdle, cfg.SessionAge = time.Hour, 5*time.Hour
	cfg.ProgressEvery = time.Second
	bubble(t, cfg, newDirector(elicit("sure?")), func(t *testing.T, d direct) {
		idle, used, streams, asks := d.initialize(), d.initialize(), d.initialize(), d.initialize()
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var stream *httptest.ResponseRecorder
		wg.Go(func() { stream = d.do(ctx, http.MethodGet, streams, "") })
		call := rpc(1, "tools/call", obj{"name": "kairos_begin", "arguments": beginArgs})
		wg.Go(func() { d.do(t.Context(), http.MethodPost, asks, call) })
		for range 3 {
			time.Sleep(50 * time.Minute)
			if !d.HasSession(used) || !d.alive(used) {
				t.Fatal("a session that is used is not kept")
			}
		}
		if d.HasSession(idle) {
			t.Error("an idle session is kept")
		}
		if d.HasSession(asks) {
			t.Error("a session whose client has left a question open and gone is kept")
		}
		if !d.HasSession(streams) {
			t.Error("a session with a stream is not kept")
		}
		if !d.alive(idle) {
			t.Error("the client of an idle session does not come back to it")
		}
		time.Sleep(3 * time.Hour)
		for _, id := range []string{used, streams, idle} {
			if d.alive(id) {
				t.Error("a session has outlived its age")
			}
		}
		hangUp()
		wg.Wait()
		if n := strings.Count(stream.Body.String(), ": ping\n\n"); n < 4*60 {
			t.Errorf("%d pings on a stream of five hours, want one every 15 s", n)
		}
	})
}

// The question is kept by its run, so the session of a client that asked and
// vanished is worth nothing: it is the first to make room.
func TestClientsThatAskAndVanishMakeRoom(t *testing.T) {
	cfg := config()
	cfg.MaxSessions, cfg.MaxSessionsPerClient, cfg.PlainWait = 8, 8, time.Minute
	bubble(t, cfg, newDirector(elicit("sure?")), func(t *testing.T, here direct) {
		idle, asking := here.initialize(), here.initialize()
		call := rpc(1, "tools/call", obj{"name": "kairos_begin", "arguments": beginArgs})
		here.do(t.Context(), http.MethodPost, asking, call) // until the call may wait no longer
		var calls sync.WaitGroup
		var vanished []string
		for range cfg.MaxSessions - 2 {
			id := here.initialize()
			ctx, hangUp := context.WithCancel(t.Context())
			calls.Go(func() { here.do(ctx, http.MethodPost, id, call) })
			synctest.Wait() // the question is out
			hangUp()
			vanished = append(vanished, id)
		}
		calls.Wait()
		for i := range vanished {
			if id := here.initialize(); id == "" {
				t.Fatalf("initialize %d is refused: sessions of clients that have gone are kept", i)
			}
			if here.HasSession(vanished[i]) {
				t.Errorf("a client that asked and vanished is not the first to make room")
			}
		}
		for range cfg.MaxSessions - 1 { // as many as there are idle ones
			if id := here.initialize(); id == "" {
				t.Fatal("initialize is refused")
			}
		}
		if here.HasSession(idle) {
			t.Error("an idle session is left")
		}
		if !here.HasSession(asking) {
			t.Error("a session whose client may still answer has made room for others before idle ones")
		}
		if !here.alive(idle) || !here.alive(vanished[0]) {
			t.Error("a client whose session has made room is not served when it comes back")
		}
	})
}

func TestQuestionsAreLimitedInBytes(t *testing.T) {
	cfg := config()
	cfg.PlainWait = time.Second
	bubble(t, cfg, newDirector(elicit(strings.Repeat("?", 1<<20))), func(t *testing.T, here direct) {
		var asking []string
		for range 40 { // one client may have 32 MiB
			asking = append(asking, here.initialize())
			here.do(t.Context(), http.MethodPost, asking[len(asking)-1], rpc(1, "tools/call", obj{"name": "kairos_begin", "arguments": beginArgs}))
		}
		idle := here.initialize()
		if here.HasSession(asking[0]) || !here.HasSession(asking[39]) || !here.HasSession(idle) {
			t.Errorf("the first session with a question is kept: %t, the last one: %t, an idle one: %t; want the first one dropped",
				here.HasSession(asking[0]), here.HasSession(asking[39]), here.HasSession(idle))
		}
	})
}

func TestOneAddressDoesNotTakeAllSessions(t *testing.T) {
	cfg := config()
	cfg.MaxSessions = 4
	for name, tc := range map[string]struct{ greedy, alike, other string }{
		"IPv4": {"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"},
		"IPv6": {"[2001:db8::1]:1", "[2001:db8::dead:beef]:1", "[2001:db8:0:1::1]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, newDirector(), func(t *testing.T, here direct) {
				ctx, hangUp := context.WithCancel(t.Context())
				var streams sync.WaitGroup
				for range cfg.MaxSessions / 2 {
					session := here.from(tc.greedy).initialize()
					streams.Go(func() { here.do(ctx, http.MethodGet, session, "") })
				}
				synctest.Wait() // all of them are in use
				if id := here.from(tc.alike).initialize(); id != "" {
					t.Error("an address got more than its share of the sessions")
				}
				for range cfg.MaxSessions {
					if id := here.from(tc.other).initialize(); id == "" {
						t.Error("an address keeps others out")
					}
				}
				hangUp()
				streams.Wait()
			})
		})
	}
}

func TestCloseLetsHTTPCallsFinish(t *testing.T) {
	e := newSlowEngine()
	s := newSite(t, config(), e)
	v := s.visit(`{}`)
	get := v.do(http.MethodGet, nil, nil)
	done := make(chan int)
	go func() {
		_, r := v.call("kairos_spaces", obj{})
		done <- r.status
	}()
	<-e.entered
	closed := make(chan error)
	go func() { closed <- s.server.Close() }()
	get.over() // streams end at once
	other := &visitor{site: s}
	if r := other.post(rpc(1, "ping", obj{}), nil); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("request to a closing server = %d, want 503 with Retry-After", r.status)
	}
	close(e.release)
	if status := <-done; status != http.StatusOK {
		t.Errorf("call in flight = %d, want 200", status)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
}

func TestCloseDoesNotWaitForHalfAMessage(t *testing.T) {
	cfg := config()
	cfg.DrainTimeout = time.Hour
	s := newSite(t, cfg, newDirector())
	v := &visitor{site: s}
	body, half := io.Pipe()
	done := make(chan int)
	go func() { done <- v.do(http.MethodPost, body, nil).status }()
	if _, err := io.WriteString(half, `{"jsonrpc":`); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := io.WriteString(half, `"2.0","id":1,"method":"ping"}`); err != nil {
		t.Fatal(err)
	}
	half.Close()
	if status := <-done; status != http.StatusServiceUnavailable {
		t.Errorf("the message that came after Close = %d, want 503", status)
	}
}

// ledger is an Observer.
type ledger struct{ calls chan mcpserver.ToolCall }

func (l ledger) ToolCalled(c mcpserver.ToolCall) { l.calls <- c }

// denying is an engine whose runs have failed.
type denying struct{ *fakeDirector }

func (e denying) Next(context.Context, access.Caller, api.NextRequest) (director.Round, error) {
	r := stepReply("run-1")
	r.ErrorCode = "NONCE_MISMATCH"
	return director.Round{Reply: &r}, nil
}

func TestEveryToolCallIsObserved(t *testing.T) {
	l := ledger{make(chan mcpserver.ToolCall, 10)}
	cfg := config()
	cfg.Observer, cfg.Identify = l, asked
	e := denying{newDirector()}
	v := &visitor{site: newSite(t, cfg, e), who: "alice"}
	w := dial(t, cfg, e)
	w.initialize(`{}`)
	for name, tc := range map[string]struct {
		tool      string
		args      any
		errorCode string
		failed    bool
	}{
		"result":        {tool: "kairos_spaces", args: obj{}},
		"run error":     {tool: "kairos_next", args: beginArgs, errorCode: "NONCE_MISMATCH"},
		"invalid input": {tool: "kairos_begin", args: obj{}, errorCode: "INVALID_ARGUMENT", failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			v.call(tc.tool, tc.args)
			over := <-l.calls
			w.reply(w.call(tc.tool, tc.args))
			stdio := <-l.calls
			if over.Transport != "http" || over.Principal != "alice" || over.Space != "space:alice" {
				t.Errorf("over HTTP = %+v, want alice's call", over)
			}
			if stdio.Transport != "stdio" || stdio.Principal != "local" {
				t.Errorf("over stdio = %+v, want the operator's call", stdio)
			}
			for _, c := range []mcpserver.ToolCall{over, stdio} {
				if c.Tool != tc.tool || c.ErrorCode != tc.errorCode || c.Failed != tc.failed || c.In == 0 || c.Out == 0 || c.Took <= 0 {
					t.Errorf("call = %+v, want code %q, failed %v, and sizes", c, tc.errorCode, tc.failed)
				}
			}
		})
	}
}

func TestObserverHearsOfCallsWithoutResult(t *testing.T) {
	l := ledger{make(chan mcpserver.ToolCall, 1)}
	cfg := config()
	cfg.Observer = l
	v := &visitor{site: newSite(t, cfg, panicky{newDirector()})}
	v.call("kairos_delete", obj{"uris": []string{stepURI}})
	if c := <-l.calls; !c.Failed || c.ErrorCode == "" {
		t.Errorf("call that panicked = %+v, want it failed", c)
	}
}

func TestRealClientsOverHTTPInEveryEra(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		for name, options := range map[string][]transport.StreamableHTTPCOption{
			"posts alone":   nil,
			"with a stream": {transport.WithContinuousListening()}, //nolint:staticcheck // deprecated with the eras that have it
		} {
			if version == "2026-07-28" && options != nil {
				continue // has none, and the client falls back to an older era
			}
			t.Run(fmt.Sprint(version, " ", name), func(t *testing.T) {
				d := newDirector(elicit("sure?"), sample("how much?"))
				s := newSite(t, config(), d)
				way, err := transport.NewStreamableHTTP(s.http.URL, append(options, transport.WithHTTPBasicClient(s.http.Client()))...)
				if err != nil {
					t.Fatal(err)
				}
				c := client.NewClient(way,
					client.WithElicitationHandler(person{}),
					client.WithSamplingHandler(model{}), client.WithProtocolVersion(version))
				if err := c.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
					ProtocolVersion: version, ClientInfo: mcp.Implementation{Name: "lib", Version: "1"},
				}}); err != nil {
					t.Fatal(err)
				}
				if tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil || len(tools.Tools) != 9 {
					t.Errorf("tools = %v, %v", tools, err)
				}
				got := decode[step](t, replyOf(callTool(t, c, "kairos_begin", beginArgs)))
				if len(got.Solved) != 2 || !strings.Contains(string(got.Solved[1].Output), "42") {
					t.Errorf("solved = %+v, want the person's and the model's answer", got.Solved)
				}
				if c := d.lastClient(); c.Era != version || c.Transport != "http" {
					t.Errorf("client = %+v, want era %s over http", c, version)
				}
			})
		}
	}
}
