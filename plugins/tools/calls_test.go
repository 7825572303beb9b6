package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// begun makes a call that takes long, and returns once the server has it.
func (c *counter) begun(behaviour string) driver.RenderRequest {
	c.t.Helper()
	c.becomes(behaviour)
	req := c.request(c.plan(countByTwo))
	if res := c.ask(c.t.Context(), req); res.Pending == nil {
		c.t.Fatalf("Render = %s, want pending", said(res))
	}
	c.eventually("the server has the call", func() bool { return len(c.calls()) > 0 })
	req.Recover = true
	return req
}

func (c *counter) eventually(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func (c *counter) has(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

func said(res driver.RenderResult) string {
	b, _ := json.Marshal(res)
	return string(b)
}

func TestALongCallIsPendingUntilItEnds(t *testing.T) {
	for _, class := range []mcpclient.Class{mcpclient.Reads, mcpclient.Changes} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel() // it mostly waits
			c := newCounter(t, class)
			req := c.begun("takes long")
			res := c.ask(t.Context(), req)
			if res.Pending == nil || res.Pending.Progress == nil || *res.Pending.Progress != 0.3 || !strings.Contains(res.Pending.Reason, "3 of 10") || res.Pending.RetryAfter <= 0 {
				t.Errorf("Render = %s, want the progress of the call", said(res))
			}
			if strings.Contains(said(res), "AGENT") {
				t.Errorf("Render = %s: the words of the server are passed on", said(res))
			}
			if err := os.WriteFile(filepath.Join(c.dir, "finish"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if res = c.ask(t.Context(), req); res.Answer == nil || res.Answer.Provenance != driver.ServerObserved {
					t.Errorf("Render = %s, want the result", said(res))
				}
			}
			if calls := c.calls(); len(calls) != 1 || calls[0] != req.IdempotencyKey {
				t.Errorf("calls with the keys %q, want one", calls)
			}
		})
	}
}

// A call that nobody is told the end of was made once, whatever its driver forgot.
func TestACallThatEndedWithItsProcessIsNotRepeated(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	req := c.request(c.plan(countByTwo))
	req.Recover = true
	if res := c.ask(t.Context(), req); res.Unknown == nil {
		t.Errorf("Render = %s, want that nobody knows", said(res))
	}
	req.Cancel = true
	if res := c.ask(t.Context(), req); res.Unknown == nil {
		t.Errorf("cancelled: Render = %s, want that nobody knows", said(res))
	}
	req.Recover, req.Cancel = false, false
	if res := c.ask(t.Context(), req); res.Unknown == nil || len(c.calls()) > 0 {
		t.Errorf("a call that came late: Render = %s after %d calls, want none", said(res), len(c.calls()))
	}
	reads := newCounter(t, mcpclient.Reads)
	req = reads.request(reads.plan(countByTwo))
	req.Recover = true
	if res := reads.ask(t.Context(), req); res.NotDone == nil {
		t.Errorf("a tool that only reads: Render = %s, want not done", said(res))
	}
}

// A server that makes a call once for a key is asked again with the same key.
func TestACallThatWasCutOffIsRepeatedWhereItsServerDeduplicates(t *testing.T) {
	for name, tc := range map[string]struct {
		behaviour string
		lost      bool // with the process that made it
		answered  bool
		calls     int
	}{
		"its process ended":             {"sound", true, true, 1},
		"its process ended, and server": {"ends in the call", true, false, 1},
		"its server ends in each call":  {"ends in the call", false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			c := newCounter(t, mcpclient.Changes)
			c.s.Deduplicates = true
			c.becomes(tc.behaviour)
			req := c.request(c.plan(countByTwo))
			req.Recover = tc.lost
			res := c.ask(t.Context(), req)
			for req.Recover = true; res.Pending != nil; {
				res = c.ask(t.Context(), req)
			}
			if (res.Answer != nil) != tc.answered || (res.Unknown != nil) == tc.answered {
				t.Errorf("Render = %s", said(res))
			}
			calls := c.calls()
			for _, key := range calls {
				if key != req.IdempotencyKey {
					t.Errorf("called with the key %q, want %q", key, req.IdempotencyKey)
				}
			}
			if len(calls) != tc.calls {
				t.Errorf("%d calls, want %d", len(calls), tc.calls)
			}
		})
	}
	c := newCounter(t, mcpclient.Changes)
	c.s.Deduplicates = true
	c.accept()
	req := c.request(c.plan(countByTwo))
	req.Recover, req.Cancel = true, true
	if res := c.ask(t.Context(), req); res.Unknown == nil || len(c.calls()) > 0 {
		t.Errorf("a lost call that is cancelled: Render = %s after %d calls, want unknown and none", said(res), len(c.calls()))
	}
}

func TestACallIsCancelled(t *testing.T) {
	for _, class := range []mcpclient.Class{mcpclient.Reads, mcpclient.Changes} {
		for _, behaviour := range []string{"takes long", "ignores that it is cancelled"} {
			t.Run(behaviour+", "+string(class), func(t *testing.T) {
				t.Parallel() // it mostly waits
				c := newCounter(t, class)
				req := c.begun(behaviour)
				req.Cancel = true
				res := c.ask(t.Context(), req)
				if (class == mcpclient.Reads) != (res.NotDone != nil) || (class == mcpclient.Changes) != (res.Unknown != nil) || !strings.Contains(said(res), "told, and ended") {
					t.Errorf("Render = %s", said(res))
				}
				if behaviour == "takes long" && !c.has("cancelled") {
					t.Error("the server was not told")
				}
				req.Cancel = false
				if again := c.ask(t.Context(), req); said(again) != said(res) {
					t.Errorf("asked again: %s", said(again))
				}
				if calls := c.calls(); len(calls) != 1 {
					t.Errorf("%d calls, want one", len(calls))
				}
			})
		}
	}
}

// Two calls share a server: to cancel one does not end the other.
func TestTheServerOfAnotherCallIsNotEnded(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCounter(t, mcpclient.Changes)
	first := c.begun("takes long")
	second := c.request(c.plan(countByTwo))
	if res := c.ask(t.Context(), second); res.Pending == nil {
		t.Fatalf("Render = %s, want pending", said(res))
	}
	c.eventually("the server has both calls", func() bool { return len(c.calls()) == 2 })
	first.Cancel = true
	if res := c.ask(t.Context(), first); res.Unknown == nil || strings.Contains(said(res), "ended") {
		t.Errorf("cancelled: Render = %s", said(res))
	}
	c.eventually("the server was told", func() bool { return c.has("cancelled") })
	if err := os.WriteFile(filepath.Join(c.dir, "finish"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Recover = true
	if res := c.ask(t.Context(), second); res.Answer == nil {
		t.Errorf("the other call: Render = %s, want its result", said(res))
	}
}

// As many calls are kept as there may be: one that runs is never forgotten.
func TestTheNumberOfCallsIsBounded(t *testing.T) {
	cs := newCalls()
	running := func() *call { return &call{done: make(chan struct{})} }
	oldest := running()
	for i := range maxCalls {
		c := oldest
		if i > 0 {
			c = running()
		}
		if got, err := cs.add(fmt.Sprint(i), c); err != nil || got != c {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if _, err := cs.add("more", running()); !errors.Is(err, errTooMany) {
		t.Errorf("one more than %d running calls: %v, want that it is refused", maxCalls, err)
	}
	if known, err := cs.add("0", running()); err != nil || known != oldest {
		t.Errorf("a known key: %v, %v, want the call that has it", known, err)
	}
	close(cs.find("7").done)
	if _, err := cs.add("more", running()); err != nil || cs.find("7") != nil || cs.find("0") != oldest {
		t.Errorf("once one has ended: %v, want its place", err)
	}
}
