package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	everything = `{"elicitation":{},"sampling":{},"roots":{}}`
	accepted   = `{"action":"accept","content":{"ok":true}}`
)

var beginArgs = obj{"uri": stepURI}

func TestClientCapabilitiesAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		capabilities string
		want         driver.Client
	}{
		"none": {`{}`, driver.Client{}},
		"elicitation means form": {`{"elicitation":{}}`, driver.Client{
			ElicitationForm: true, Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
		}},
		"form": {`{"elicitation":{"form":{}}}`, driver.Client{
			ElicitationForm: true, Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
		}},
		"url alone": {`{"elicitation":{"url":{}}}`, driver.Client{
			ElicitationURL: true, Capabilities: json.RawMessage(`{"elicitation":{"url":{}}}`),
		}},
		"form and url": {`{"elicitation":{"form":{},"url":{}}}`, driver.Client{
			ElicitationForm: true, ElicitationURL: true, Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`),
		}},
		"sampling": {`{"sampling":{}}`, driver.Client{Sampling: true, Capabilities: json.RawMessage(`{"sampling":{}}`)}},
		"roots": {`{"roots":{"listChanged":true}}`, driver.Client{
			Roots: true, Capabilities: json.RawMessage(`{"roots":{"listChanged":true}}`),
		}},
		"of third parties": {`{"unknown":[1],"experimental":{"acme/confirm":{"b":1,"a":2}}, "extensions":{"com.acme/x":{}}}`, driver.Client{
			Capabilities: json.RawMessage(`{"experimental":{"acme/confirm":{"a":2,"b":1}},"extensions":{"com.acme/x":{}},"unknown":[1]}`),
		}},
		"too large": {`{"sampling":{},"experimental":{"acme/confirm":"` + strings.Repeat("x", 9000) + `"}}`, driver.Client{Sampling: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector()
			w := dial(t, config(), d)
			w.initialize(tc.capabilities)
			tc.want.Transport = "stdio"

			w.step(w.call("kairos_begin", beginArgs))
			tc.want.Name, tc.want.Version, tc.want.Era = "old", "1", "2025-11-25"
			if diff := cmp.Diff(tc.want, d.lastClient()); diff != "" {
				t.Errorf("legacy client (-want +got):\n%s", diff)
			}
			w.step(w.modern(tc.capabilities, "kairos_begin", beginArgs, nil))
			tc.want.Name, tc.want.Version, tc.want.Era = "new", "2", "2026-07-28"
			if diff := cmp.Diff(tc.want, d.lastClient()); diff != "" {
				t.Errorf("modern client (-want +got):\n%s", diff)
			}
		})
	}
}

// confirm is a request that only a third party's clients understand.
func confirm() director.Ask {
	return director.Ask{
		Method: "acme/confirm", Params: json.RawMessage(`{"question":"Ship it?","level":0}`), Human: true,
		Needs: []string{"/experimental/acme~1confirm"},
	}
}

const confirms = `{"experimental":{"acme/confirm":{}}}`

func TestAMethodOfAThirdPartyReachesTheClientThatDeclaredIt(t *testing.T) {
	t.Run("legacy", func(t *testing.T) {
		w := dial(t, config(), newDirector(confirm()))
		w.initialize(confirms)
		id := w.call("kairos_begin", beginArgs)
		asked := w.question("acme/confirm")
		if got, want := string(asked.Params), string(confirm().Params); got != want {
			t.Errorf("params = %s, want them verbatim: %s", got, want)
		}
		w.answer(asked.ID, `{"yes":true,"by":"alice"}`)
		if s := w.step(id); len(s.Solved) != 1 || string(s.Solved[0].Output) != `{"yes":true,"by":"alice"}` {
			t.Errorf("solved = %+v, want the answer as the client sent it", s.Solved)
		}
	})
	t.Run("modern", func(t *testing.T) {
		w := dial(t, config(), newDirector(confirm()))
		r := w.result(w.modern(confirms, "kairos_begin", beginArgs, nil))
		if len(r.InputRequests) != 1 {
			t.Fatalf("result = %+v, want one input request", r)
		}
		for _, q := range r.InputRequests {
			if q.Method != "acme/confirm" || string(q.Params) != string(confirm().Params) {
				t.Errorf("asked = %+v, want the request verbatim", q)
			}
		}
		s := w.step(w.modern(confirms, "kairos_begin", beginArgs, answers(r, `{"yes":true,"by":"alice"}`)))
		if len(s.Solved) != 1 || string(s.Solved[0].Output) != `{"yes":true,"by":"alice"}` {
			t.Errorf("solved = %+v, want the answer as the client sent it", s.Solved)
		}
	})
}

func TestAMethodOfAThirdPartyIsKeptFromClientsThatDoNotDeclareIt(t *testing.T) {
	d := newDirector(confirm())
	w := dial(t, config(), d)
	for _, capabilities := range []string{
		`{}`, everything, `{"experimental":{"acme/confirm":false}}`, `{"extensions":{"acme/confirm":{}}}`, `{"acme/confirm":{}}`,
		`{"experimental":{"acme/confirm":"` + strings.Repeat("x", 9000) + `"}}`,
	} {
		w.initialize(capabilities)
		for era, s := range map[string]step{
			"legacy": w.step(w.call("kairos_begin", beginArgs)), "modern": w.step(w.modern(capabilities, "kairos_begin", beginArgs, nil)),
		} {
			if len(s.Solved) != 1 || !strings.Contains(string(s.Solved[0].Output), "-32601") {
				t.Errorf("%s with %.60s: solved = %+v, want code -32601", era, capabilities, s.Solved)
			}
		}
	}
	for _, m := range w.kept {
		t.Errorf("the client got %v", m)
	}
}

func TestModernRequestLeavesLegacyCapabilitiesAlone(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	w.step(w.modern(`{}`, "kairos_begin", beginArgs, nil))

	id := w.call("kairos_begin", beginArgs)
	w.answer(w.question("elicitation/create").ID, accepted)
	w.step(id)
}

func TestClientIsNotAskedWhatItDidNotDeclare(t *testing.T) {
	d := newDirector(elicit("a"), sample("b"))
	roots := d.asks[0]
	roots.Method, roots.Params = "roots/list", nil
	unknown := d.asks[0]
	unknown.Method = "tasks/cancel"
	url := d.asks[0]
	url.Params = json.RawMessage(`{"mode":"url","message":"m","url":"http://localhost/a","elicitationId":"e"}`)
	d.asks = append(d.asks, roots, unknown, url)

	w := dial(t, config(), d)
	check := func(era string, s step) {
		if len(s.Solved) != len(d.asks) {
			t.Fatalf("%s: %d questions settled, want %d", era, len(s.Solved), len(d.asks))
		}
		for i, solved := range s.Solved {
			var out struct {
				Error driver.ClientError `json:"client_error"`
			}
			if out = decode[struct {
				Error driver.ClientError `json:"client_error"`
			}](t, solved.Output); out.Error.Code != -32601 {
				t.Errorf("%s: %s ended with %s, want code -32601", era, d.asks[i].Method, solved.Output)
			}
		}
	}
	check("before initialize", w.step(w.call("kairos_begin", beginArgs)))
	w.initialize(`{}`)
	check("legacy", w.step(w.call("kairos_begin", beginArgs)))
	check("modern", w.step(w.modern(`{}`, "kairos_begin", beginArgs, nil)))
	for _, m := range w.kept {
		t.Errorf("the client got %v", m)
	}
}

func TestClientErrorKeepsItsCode(t *testing.T) {
	for name, tc := range map[string]struct {
		sent string
		want driver.ClientError
	}{
		"refusal":   {`{"code":-1,"message":"User rejected sampling request"}`, driver.ClientError{Code: -1, Message: "User rejected sampling request"}},
		"own code":  {`{"code":-32042,"message":"later","data":{"x":1}}`, driver.ClientError{Code: -32042, Message: "later"}},
		"no object": {`"no"`, driver.ClientError{Code: -32603, Message: "the client sent an error that cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector(sample("p"))
			w := dial(t, config(), d)
			w.initialize(everything)
			id := w.call("kairos_begin", beginArgs)
			w.raw(`{"jsonrpc":"2.0","id":` + string(w.question("sampling/createMessage").ID) + `,"error":` + tc.sent + `}`)
			w.step(id)
			if got := (<-d.continued).Error; cmp.Diff(&tc.want, got) != "" {
				t.Errorf("client error = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestLateAnswerCounts(t *testing.T) {
	cfg := config()
	cfg.PlainWait = time.Millisecond
	d := newDirector(elicit("sure?"), elicit("really?"))
	w := dial(t, cfg, d)
	w.initialize(everything)

	id := w.call("kairos_begin", beginArgs)
	asked := w.question("elicitation/create")
	if got := w.step(id); got.ErrorCode != string(fault.WaitingForUser) || !got.MustObey {
		t.Errorf("reply after the wait = %+v, want WAITING_FOR_USER", got)
	}
	w.answer(asked.ID, accepted)
	got := <-d.continued
	if string(got.Result) != accepted || !got.Caller.Detached {
		t.Errorf("late answer = %s, detached %v; want it as sent and detached", got.Result, got.Caller.Detached)
	}
	// The next question comes with the next call, not out of the blue.
	w.request("ping", obj{})
	id = w.call("kairos_next", beginArgs)
	w.answer(w.question("elicitation/create").ID, accepted)
	<-d.continued
	w.reply(id)
}

func TestOpenQuestionIsJoinedNotAskedAgain(t *testing.T) {
	cfg := config()
	cfg.PlainWait = time.Millisecond
	d := newDirector(elicit("sure?"))
	w := dial(t, cfg, d)
	w.initialize(everything)
	w.step(w.call("kairos_begin", beginArgs))
	asked := w.question("elicitation/create")

	// With a progress token the second call waits for the same question.
	id := w.request("tools/call", obj{
		"name": "kairos_next", "arguments": beginArgs, "_meta": obj{"progressToken": "p"},
	})
	w.until("progress", func(m msg) bool { return m.Method == "notifications/progress" })
	w.answer(asked.ID, accepted)
	if got := w.step(id); len(got.Solved) != 1 {
		t.Errorf("joined call's reply = %+v, want the answer in it", got)
	}
	for _, m := range w.kept {
		if m.Method == "elicitation/create" {
			t.Errorf("the person was asked twice: %v", m)
		}
	}
}

func TestNewerQuestionOfARunReplacesTheOlder(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	first := w.call("kairos_begin", beginArgs)
	old := w.question("elicitation/create")

	d.forget("run-1") // as another process would have done
	second := w.call("kairos_next", obj{"uri": stepURI, "run_id": "run-1"})
	withdrawn := w.until("withdrawal", func(m msg) bool { return m.Method == "notifications/cancelled" })
	if got := decode[struct {
		ID json.RawMessage `json:"requestId"`
	}](t, withdrawn.Params).ID; string(got) != string(old.ID) {
		t.Errorf("withdrawn = %s, want %s", got, old.ID)
	}
	w.answer(w.question("elicitation/create").ID, accepted)
	if a, b := w.step(first), w.step(second); len(a.Solved) != 1 || len(b.Solved) != 1 {
		t.Errorf("replies = %+v and %+v, want the answer in both", a, b)
	}
	w.answer(old.ID, accepted) // too late: nobody asks any more
	w.reply(w.request("ping", obj{}))
}

func TestWaitingCallsDoNotBlockOthers(t *testing.T) {
	const n = 120
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	ids, asked := make([]string, n), make([]msg, n)
	for i := range n {
		ids[i] = w.call("kairos_begin", beginArgs)
	}
	for i := range n {
		asked[i] = w.question("elicitation/create")
	}
	w.result(w.call("kairos_spaces", obj{}))
	for i := range n {
		w.answer(asked[n-1-i].ID, accepted)
	}
	seen := map[string]bool{}
	for _, id := range ids {
		seen[w.step(id).RunID] = true
	}
	if len(seen) != n {
		t.Errorf("%d runs in the replies, want %d: answers went to the wrong question", len(seen), n)
	}
}

func TestCancelledCallGetsNoReplyAndItsAnswerCounts(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	id := w.call("kairos_begin", beginArgs)
	asked := w.question("elicitation/create")
	w.raw(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	w.answer(asked.ID, accepted)
	if got := <-d.continued; string(got.Result) != accepted {
		t.Errorf("answer = %s, want %s", got.Result, accepted)
	}
	w.reply(w.request("ping", obj{}))
	for _, m := range w.kept {
		t.Errorf("after the cancellation the client got %v", m)
	}
}

func TestProgressIsReportedWhileAPersonThinks(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	id := w.request("tools/call", obj{
		"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": 7},
	})
	asked := w.question("elicitation/create")
	last := 0.0
	for range 3 {
		m := w.until("progress", func(m msg) bool { return m.Method == "notifications/progress" })
		p := decode[struct {
			Token    int     `json:"progressToken"`
			Progress float64 `json:"progress"`
		}](t, m.Params)
		if p.Token != 7 || p.Progress <= last {
			t.Errorf("progress = %+v after %v, want token 7 and more", p, last)
		}
		last = p.Progress
	}
	if got := d.lastCaller().CanWait; got <= 5*time.Minute || got > 10*time.Minute { // some of it may have passed
		t.Errorf("CanWait with a progress token = %v, want 10m", got)
	}
	w.answer(asked.ID, accepted)
	w.step(id)
}

func TestWithoutProgressTokenACallWaitsFiftySeconds(t *testing.T) {
	d := newDirector()
	w := dial(t, config(), d)
	w.initialize(everything)
	w.step(w.call("kairos_begin", beginArgs))
	if got := d.lastCaller().CanWait; got <= 0 || got > 50*time.Second { // some of it may have passed
		t.Errorf("CanWait = %v, want 50s", got)
	}
}

func TestConnectionThatEndsLeavesTheQuestionOpen(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, s *mcpserver.Server, in io.Closer) error{
		"end of input": func(_ context.CancelFunc, _ *mcpserver.Server, in io.Closer) error { return in.Close() },
		"context":      func(cancel context.CancelFunc, _ *mcpserver.Server, _ io.Closer) error { cancel(); return nil },
		"close":        func(_ context.CancelFunc, s *mcpserver.Server, _ io.Closer) error { return s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector(elicit("sure?"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, in, out, ended := piped(ctx, t, config(), d)
			w := speak(t, in, out)
			w.initialize(everything)
			w.call("kairos_begin", beginArgs)
			w.question("elicitation/create")
			if err := end(cancel, s, in); err != nil {
				t.Errorf("ending: %v", err)
			}
			select {
			case err := <-ended:
				if want := ctx.Err(); !errors.Is(err, want) {
					t.Errorf("ServeStdio = %v, want %v", err, want)
				}
			case <-time.After(patience):
				t.Fatal("ServeStdio did not end")
			}
			if len(d.continued) != 0 {
				t.Error("the engine was told an answer that nobody gave")
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("second Close = %v", err)
			}
		})
	}
}
