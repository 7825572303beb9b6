package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/sessions"
)

// restarted is the client of a site at another one with the same keys.
func (v *visitor) restarted(cfg mcpserver.Config, e mcpserver.Engine) *visitor {
	v.t.Helper()
	return &visitor{site: newSite(v.t, cfg, e), session: v.session, who: v.who, id: v.id}
}

func TestAClientContinuesItsSessionAfterARestart(t *testing.T) {
	cfg := config()
	cfg.Identify = asked
	cfg.Capabilities = func() []string { return []string{"/experimental/acme"} }
	first := newSite(t, cfg, newDirector())
	before := &visitor{site: first, who: "alice"}
	before.initialize(`{"elicitation":{},"experimental":{"acme":{},"other":{}}}`)
	if len(before.session) > sessions.MaxID {
		t.Errorf("the id has %d bytes, want at most %d", len(before.session), sessions.MaxID)
	}
	if err := first.server.Close(); err != nil {
		t.Fatal(err)
	}
	d := newDirector(elicit("sure?"))
	v := before.restarted(cfg, d)
	get := v.do(http.MethodGet, nil, nil)
	if get.status != http.StatusOK {
		t.Errorf("GET = %d, want a stream", get.status)
	}
	id, r := v.call("kairos_begin", beginArgs)
	q := r.question("elicitation/create")
	v.answer(q.ID, accepted)
	r.reply(id)
	c := d.lastCaller()
	if c.Connection != sessions.Key(before.session) || c.Principal != "alice" || c.Client.Name != "old" || c.Client.Version != "1" ||
		c.Client.Era != "2025-11-25" || c.Client.Transport != "http" || !c.Client.ElicitationForm || c.Client.Sampling {
		t.Errorf("caller = %+v, want the one before the restart", c)
	}
	if !c.Client.Declares("/experimental/acme") || c.Client.Declares("/experimental/other") {
		t.Errorf("the client declares %s, want what drivers need", c.Client.Capabilities)
	}
}

func TestIDsThatAreNotOfASessionAreUnknown(t *testing.T) {
	cfg := config()
	cfg.Identify = asked
	s := newSite(t, cfg, newDirector())
	mine := &visitor{site: s, who: "alice"}
	mine.initialize(everything)
	other := config()
	other.StateKeys = func() ([][32]byte, error) { return [][32]byte{{2}}, nil }
	foreign := newSite(t, other, newDirector()).visit(everything)
	for name, v := range map[string]*visitor{
		"another principal's": {site: s, who: "bob", session: mine.session},
		"another server's":    {site: s, who: "alice", session: foreign.session},
		"a changed one":       {site: s, who: "alice", session: mine.session[:len(mine.session)-1] + "_"},
		"a made up one":       {site: s, who: "alice", session: "6d9c9bd2-9f5b-4f39-8f0c-6f4d3c6a7d5e"},
		"a long one":          {site: s, who: "alice", session: strings.Repeat("A", 2*sessions.MaxID)},
	} {
		for what, r := range map[string]*response{
			"a call": v.post(rpc(1, "ping", obj{}), nil), "a stream": v.do(http.MethodGet, nil, nil), "the end": v.do(http.MethodDelete, nil, nil),
		} {
			if r.status != http.StatusNotFound {
				t.Errorf("%s with %s id = %d, want 404", what, name, r.status)
			}
		}
	}
	if got := mine.post(rpc(1, "ping", obj{}), nil).status; got != http.StatusOK {
		t.Errorf("the session of alice = %d, want 200", got)
	}
}

// The person answers the form that the process before has shown.
func TestAnAnswerToWhatAnotherProcessAskedHasNoEffect(t *testing.T) {
	cfg := config()
	cfg.PlainWait = time.Millisecond
	before := newSite(t, cfg, newDirector(elicit("sure?"))).visit(everything)
	id, r := before.call("kairos_begin", beginArgs)
	old := r.question("elicitation/create")
	r.reply(id)
	d := newDirector(elicit("delete everything?"))
	v := before.restarted(cfg, d)
	id, r = v.call("kairos_begin", beginArgs)
	now := r.question("elicitation/create")
	r.reply(id)
	v.answerInVain(old.ID, accepted)
	if len(d.continued) != 0 {
		t.Errorf("the engine was told %+v, which answers another question", d.continued)
	}
	v.answer(now.ID, accepted)
}

func TestASessionThatEndsElsewhereEndsHere(t *testing.T) {
	cfg := config()
	cfg.Ended = &sessions.Memory{}
	synctest.Test(t, func(t *testing.T) {
		var both []direct
		for range 2 {
			s, err := mcpserver.New(cfg, newDirector(), testLog(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			both = append(both, direct{t: t, Server: s})
		}
		here, there := both[0], both[1]
		id := here.initialize()
		if !there.alive(id) {
			t.Fatal("the other server does not continue the session")
		}
		if w := there.do(t.Context(), http.MethodDelete, id, ""); w.Code != http.StatusOK {
			t.Fatalf("DELETE = %d, want 200", w.Code)
		}
		if there.alive(id) || there.HasSession(id) {
			t.Error("the session is served where it was ended")
		}
		time.Sleep(5 * time.Second)
		if here.alive(id) || here.HasSession(id) {
			t.Error("the session is served at the other server 5 s after its end")
		}
		if w := here.do(t.Context(), http.MethodDelete, id, ""); w.Code != http.StatusNotFound {
			t.Errorf("DELETE again = %d, want 404", w.Code)
		}
	})
}

// broken is a store whose database is down.
type broken struct{}

var errBroken = errors.New("the database is down")

func (broken) EndSession(context.Context, string, time.Time, time.Time) error { return errBroken }
func (broken) SessionEnded(context.Context, string) (bool, error)             { return false, errBroken }

// Nobody knows whether a session was ended, so it is not made again. One that is in memory is
// served: what its calls need of the database they say themselves.
func TestSessionsWithoutTheDatabase(t *testing.T) {
	cfg := config()
	cfg.Ended = broken{}
	bubble(t, cfg, newDirector(), func(t *testing.T, d direct) {
		id := d.initialize()
		time.Sleep(time.Minute)
		if !d.alive(id) {
			t.Error("a session in memory is not served")
		}
		if w := d.do(t.Context(), http.MethodDelete, id, ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("DELETE = %d, want 503 with Retry-After", w.Code)
		}
		time.Sleep(2 * time.Hour)
		w := d.do(t.Context(), http.MethodPost, id, rpc(1, "ping", obj{}))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a call in a session that is not in memory = %d, want 503 with Retry-After", w.Code)
		}
	})
}

func TestWithoutKeysNoSessionBegins(t *testing.T) {
	cfg := config()
	cfg.StateKeys = func() ([][32]byte, error) { return nil, errors.New("the disk is full") }
	s := newSite(t, cfg, newDirector())
	v := &visitor{site: s}
	r := v.post(rpc(0, "initialize", obj{"protocolVersion": "2025-11-25", "capabilities": obj{}, "clientInfo": obj{}}), nil)
	if r.status != http.StatusInternalServerError || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("initialize = %d %v, want 500", r.status, r.header)
	}
}
