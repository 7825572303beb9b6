package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestQuestionThatIsGivenUpIsWithdrawnBeforeTheReply(t *testing.T) {
	d := newDirector(sample("how much?"))
	d.wait = time.Millisecond
	v := newSite(t, config(), d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	asked := r.question("sampling/createMessage")
	r.reply(id)
	if len(r.kept) != 1 || r.kept[0].Method != "notifications/cancelled" ||
		!strings.Contains(string(r.kept[0].Params), `"requestId":`+string(asked.ID)) {
		t.Errorf("before the reply came %v, want the withdrawal of %s", r.kept, asked.ID)
	}
	v.answerInVain(asked.ID, accepted)
	if len(d.continued) != 0 {
		t.Error("the engine was told an answer to a question it has given up")
	}
}

func TestAnswersOverHTTPCountOnceAndOnlyForTheirQuestion(t *testing.T) {
	d := newDirector(elicit("sure?"))
	s := newSite(t, config(), d)
	v, other := s.visit(everything), s.visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	otherID, otherR := other.call("kairos_begin", beginArgs)
	asked, otherAsked := r.question("elicitation/create"), otherR.question("elicitation/create")
	for _, stray := range []string{`4711`, `"x"`, `null`, `-1`, `1.5`, string(otherAsked.ID), `1e400`} {
		v.answerInVain(json.RawMessage(stray), `{"action":"decline"}`)
	}
	v.answer(asked.ID, accepted)
	v.answer(asked.ID, `{"action":"decline"}`) // accepted once, the id is not refused
	if got := r.step(id); len(got.Solved) != 1 || string(got.Solved[0].Output) != accepted {
		t.Errorf("solved = %+v, want the first answer only", got.Solved)
	}
	other.answer(otherAsked.ID, `{"action":"cancel"}`)
	if got := otherR.step(otherID); string(got.Solved[0].Output) != `{"action":"cancel"}` {
		t.Errorf("solved = %+v, want the answer of its own client", got.Solved)
	}
	if len(d.continued) != 2 {
		t.Errorf("%d answers taken, want 2", len(d.continued))
	}
}

func TestQuestionOfABrokenStreamIsSentAgainToTheNextCall(t *testing.T) {
	cfg := config()
	cfg.PlainWait = 20 * time.Millisecond
	d := newDirector(elicit("sure?"))
	v := newSite(t, cfg, d).visit(everything)
	first := v.start(rpc(1, "tools/call", obj{
		"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": "p"},
	}), nil)
	d.begun(t)
	first()
	// Until the server has noticed, calls wait for the answer in vain.
	for deadline := time.Now().Add(patience); ; {
		_, r := v.call("kairos_next", beginArgs)
		m := <-r.msgs
		if m.Method == "elicitation/create" {
			v.answer(m.ID, accepted)
			if got := <-d.continued; string(got.Result) != accepted {
				t.Errorf("answer = %s, want %s", got.Result, accepted)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the question did not come again")
		}
	}
}

// withoutStreaming hides from POSTs that responses can be streamed.
func withoutStreaming(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w = struct{ http.ResponseWriter }{w}
		}
		h.ServeHTTP(w, r)
	})
}

func TestClientIsAskedOnlyWhereItHears(t *testing.T) {
	d := newDirector(elicit("sure?"), sample("how much?"))
	v := newSiteBehind(t, config(), d, withoutStreaming).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	for _, solved := range r.step(id).Solved {
		if !strings.Contains(string(solved.Output), "-32601") {
			t.Errorf("solved = %s, want the question refused: nobody hears it", solved.Output)
		}
	}
	if c := d.lastClient(); c.Sampling || c.Roots || c.ElicitationForm {
		t.Errorf("client = %+v, want one that can do nothing", c)
	}

	get := v.do(http.MethodGet, nil, nil)
	done := make(chan step)
	go func() {
		id, r := v.call("kairos_begin", beginArgs)
		done <- r.step(id)
	}()
	other := &visitor{site: v.site, session: v.session}
	other.answer(get.question("elicitation/create").ID, accepted)
	other.answer(get.question("sampling/createMessage").ID, `{"model":"m"}`)
	if got := <-done; string(got.Solved[0].Output) != accepted {
		t.Errorf("solved = %+v, want the answers of the stream", got.Solved)
	}
}

func TestCancelledHTTPCallEndsWithoutReplyAndItsAnswerCounts(t *testing.T) {
	d := newDirector(elicit("sure?"))
	v := newSite(t, config(), d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	asked := r.question("elicitation/create")
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	if r := (&visitor{site: v.site}).post(cancel, nil); r.status != http.StatusAccepted {
		t.Errorf("cancellation without session = %d, want 202", r.status)
	}
	if r := v.post(cancel, nil); r.status != http.StatusAccepted {
		t.Errorf("cancellation = %d, want 202", r.status)
	}
	for m := range r.msgs {
		t.Errorf("after the cancellation the client got %v", m)
	}
	v.answer(asked.ID, accepted)
	<-d.continued
}

func TestRequestIDInUseIsRefused(t *testing.T) {
	d := newDirector(elicit("sure?"))
	v := newSite(t, config(), d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	asked := r.question("elicitation/create")
	again := v.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, nil)
	if m := again.reply(id); again.status != http.StatusBadRequest || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("the same id again = %d %v, want 400 with -32600", again.status, m)
	}
	v.answer(asked.ID, accepted)
	r.step(id)
	if r := v.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, nil); r.status != http.StatusOK {
		t.Errorf("the id after its reply = %d, want 200", r.status)
	}
}

func TestStdioRequestIDInUseIsRefused(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	id := w.call("kairos_begin", beginArgs)
	asked := w.question("elicitation/create")
	w.raw(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	if m := w.until("refusal", func(m msg) bool { return m.Error != nil }); string(m.ID) != "null" || m.Error.Code != -32600 {
		t.Errorf("the same id again = %v, want -32600 without an id: the first call still waits", m)
	}
	w.answer(asked.ID, accepted)
	w.step(id)
}

func TestRefreshTellsStreams(t *testing.T) {
	types := &kinds{list: []string{"shell"}}
	cfg := config()
	cfg.ChallengeTypes = types.present
	s := newSite(t, cfg, newDirector())
	v := s.visit(`{}`)
	s.visit(`{}`) // has no stream
	get := v.do(http.MethodGet, nil, nil)
	types.become("shell", "weather")
	s.server.Refresh()
	get.until("notice", func(m msg) bool { return m.Method == "notifications/tools/list_changed" })
}

func TestHTTPPanicIsAnswered(t *testing.T) {
	v := newSite(t, config(), panicky{newDirector(elicit("sure?"))}).visit(everything)
	id, r := v.call("kairos_delete", obj{"uris": []string{stepURI}})
	if m := r.reply(id); r.status != http.StatusInternalServerError || m.Error == nil || m.Error.Code != -32603 {
		t.Errorf("panic = %d %v, want 500 with -32603", r.status, m)
	}
	id, r = v.call("kairos_begin", beginArgs)
	v.answer(r.question("elicitation/create").ID, accepted)
	if m := r.reply(id); !strings.Contains(string(m.Result), "INTERNAL") {
		t.Errorf("panic after the answer = %v, want an internal error", m)
	}
	if r := v.post(rpc(99, "ping", obj{}), nil); r.status != http.StatusOK {
		t.Errorf("the session after a panic = %d, want 200", r.status)
	}
}

func TestCallEndsWithItsConnection(t *testing.T) {
	for name, era := range map[string]func(v *visitor) context.CancelFunc{
		"legacy": func(v *visitor) context.CancelFunc {
			return v.start(rpc(1, "tools/call", obj{"name": "kairos_spaces", "arguments": obj{}}), nil)
		},
		"modern": func(v *visitor) context.CancelFunc {
			return v.start(rpc(1, "tools/call", obj{
				"name": "kairos_spaces", "arguments": obj{}, "_meta": modernMeta(`{}`),
			}), modernHeaders("tools/call", "kairos_spaces"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newSlowEngine()
			v := newSite(t, config(), e).visit(`{}`)
			hangUp := era(v)
			<-e.entered
			hangUp()
			if err := <-e.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the engine's call ended with %v, want its context cancelled", err)
			}
		})
	}
}

// start posts without waiting for the response.
func (v *visitor) start(body string, headers obj) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.http.URL, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Session-Id", v.session)
	for k, value := range headers {
		req.Header.Set(k, fmt.Sprint(value))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := v.http.Client().Do(req); err == nil {
			res.Body.Close()
		}
	}()
	v.t.Cleanup(func() { cancel(); <-done })
	return cancel
}

func TestAnAnswerThatDoesNotCountIsRefusedWithAReason(t *testing.T) {
	v := newSite(t, config(), newDirector()).visit(everything)
	r := v.post(`{"jsonrpc":"2.0","id":4711,"result":{"action":"accept"}}`, nil)
	m := <-r.msgs
	if r.status != http.StatusBadRequest || m.Error == nil || !strings.Contains(m.Error.Message, "does not count") || string(m.ID) != "null" {
		t.Errorf("answer = %d %v, want 400 with the reason and without an id", r.status, m)
	}
	v.sends(`{"jsonrpc":"2.0","id":4711,"error":{"code":0,"message":"Request cancelled"}}`, http.StatusAccepted)
}
