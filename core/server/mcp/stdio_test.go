package mcp_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

func TestRubbishIsAnsweredAndDoesNoHarm(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		code int
		id   string
	}{
		"not JSON":          {`{"jsonrpc":`, -32700, "null"},
		"text":              {`hello`, -32700, "null"},
		"not UTF-8":         {"\xff\xfe", -32700, "null"},
		"batch":             {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		"number":            {`1`, -32600, "null"},
		"method no string":  {`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "null"},
		"no method":         {`{"jsonrpc":"2.0","id":5}`, -32600, "5"},
		"id an object":      {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
		"id true":           {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, "null"},
		"other version":     {`{"jsonrpc":"1.0","id":6,"method":"ping"}`, -32600, "6"},
		"unknown method":    {`{"jsonrpc":"2.0","id":"a","method":"no/such"}`, -32601, `"a"`},
		"unknown tool":      {`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"x"}}`, -32602, "8"},
		"params no object":  {`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[]}`, -32600, "9"},
		"modern, no caps":   {`{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, -32602, "10"},
		"future version":    {`{"jsonrpc":"2.0","id":11,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`, -32022, "11"},
		"message too long":  {`"` + strings.Repeat("a", 33<<20) + `"`, -32600, "null"},
		"deep nesting":      {strings.Repeat("[", 100_000), -32700, "null"},
		"id beyond float64": {`{"jsonrpc":"2.0","id":9007199254740993,"method":"no/such"}`, -32601, "9007199254740993"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, config(), newDirector())
			w.raw(tc.line)
			m := w.until("answer", func(msg) bool { return true })
			if m.Error == nil || m.Error.Code != tc.code || string(m.ID) != tc.id {
				t.Errorf("answer = %v, want code %d, id %s", m, tc.code, tc.id)
			}
			w.reply(w.request("ping", obj{}))
		})
	}
}

func TestNotificationsAndEmptyLinesGetNoAnswer(t *testing.T) {
	w := dial(t, config(), newDirector())
	for _, line := range []string{
		"", "   ", "\r",
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`,
		`{"jsonrpc":"2.0","method":"no/such"}`,
	} {
		w.raw(line)
	}
	w.reply(w.request("ping", obj{}))
	if len(w.kept) != 0 {
		t.Errorf("answers = %v, want none", w.kept)
	}
}

func TestLongMessagesArriveWhole(t *testing.T) {
	d := newDirector()
	w := dial(t, config(), d)
	w.raw(`{"jsonrpc":"2.0","id":4711,"result":{"content":"` + strings.Repeat("b", 10<<20) + `"}}`)
	const size = 1 << 20
	w.result(w.call("kairos_mint", obj{"markdown_doc": strings.Repeat("a", size), "llm_model_id": "m"}))
	if got := len(d.mints[0].Document); got != size {
		t.Errorf("document has %d bytes, want %d", got, size)
	}
}

func TestModernRequestsNeedNoHandshake(t *testing.T) {
	w := dial(t, config(), newDirector())
	for _, method := range []string{
		"server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list",
	} {
		m := w.reply(w.request(method, obj{"_meta": modernMeta(`{}`)}))
		if m.Error != nil {
			t.Errorf("%s: %v", method, m.Error)
			continue
		}
		r := decode[struct {
			ResultType string `json:"resultType"`
			TTL        *int64 `json:"ttlMs"`
			Scope      string `json:"cacheScope"`
		}](t, m.Result)
		if r.ResultType != "complete" || r.TTL == nil || r.Scope == "" {
			t.Errorf("%s: result type %q, ttl %v, scope %q", method, r.ResultType, r.TTL, r.Scope)
		}
	}
	m := w.reply(w.request("subscriptions/listen", obj{
		"_meta": modernMeta(`{}`), "notifications": obj{"toolsListChanged": true},
	}))
	if m.Error != nil || len(w.kept) != 1 || w.kept[0].Method != "notifications/subscriptions/acknowledged" {
		t.Errorf("subscription = %v after %v, want an acknowledgement first", m, w.kept)
	}
	if m := w.reply(w.request("ping", obj{"_meta": modernMeta(`{}`)})); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("modern ping = %v, want method not found", m)
	}
}

// slowEngine is a director whose Spaces waits for release or its context.
type slowEngine struct {
	*fakeDirector
	entered, release chan struct{}
	ended            chan error
}

func (e slowEngine) Spaces(ctx context.Context, c access.Caller, in api.SpacesRequest) (api.SpacesReply, error) {
	close(e.entered)
	select {
	case <-e.release:
		e.ended <- nil
	case <-ctx.Done():
		e.ended <- ctx.Err()
		return api.SpacesReply{}, ctx.Err()
	}
	return e.fakeDirector.Spaces(ctx, c, in)
}

func newSlowEngine() slowEngine {
	return slowEngine{newDirector(), make(chan struct{}), make(chan struct{}), make(chan error, 1)}
}

func TestCallInFlightAtTheEndOfInputIsAnswered(t *testing.T) {
	e := newSlowEngine()
	_, in, out, ended := piped(t.Context(), t, config(), e)
	w := speak(t, in, out)
	id := w.call("kairos_spaces", obj{})
	<-e.entered
	in.Close()
	close(e.release)
	w.result(id)
	if err := <-ended; err != nil {
		t.Errorf("ServeStdio = %v, want nil", err)
	}
}

func TestCallThatHangsIsCancelledAfterTheDrainTimeout(t *testing.T) {
	cfg := config()
	cfg.DrainTimeout = time.Millisecond
	e := newSlowEngine()
	w := dial(t, cfg, e) // its cleanup checks that the server ends
	w.call("kairos_spaces", obj{})
	<-e.entered
	w.in.(io.Closer).Close()
	if err := <-e.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the engine's call ended with %v, want its context cancelled", err)
	}
}

// panicky is a director with a bug.
type panicky struct{ *fakeDirector }

func (panicky) Delete(context.Context, access.Caller, api.DeleteRequest) (api.DeleteReply, error) {
	panic("bug")
}

func (panicky) Continue(context.Context, access.Caller, director.Continuation) (director.Round, error) {
	panic("bug")
}

func TestPanicInTheEngineEndsOnlyItsCall(t *testing.T) {
	w := dial(t, config(), panicky{newDirector(elicit("sure?"))})
	w.initialize(everything)
	if m := w.reply(w.call("kairos_delete", goodArgs["kairos_delete"])); m.Error == nil || m.Error.Code != -32603 {
		t.Errorf("reply = %v, want an internal error", m)
	}
	id := w.call("kairos_begin", beginArgs)
	w.answer(w.question("elicitation/create").ID, accepted)
	if r := w.result(id); !r.IsError {
		t.Errorf("begin = %+v, want an error result", r)
	}
	w.reply(w.request("ping", obj{}))
}

// unreachable is a client that has closed its end.
type unreachable struct{}

func (unreachable) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestClientThatCannotBeWrittenToEndsTheConnection(t *testing.T) {
	s, err := mcpserver.New(config(), newDirector(), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	go io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if err := s.ServeStdio(t.Context(), inR, unreachable{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeStdio = %v, want the write error", err)
	}
}

func TestClosedServerServesNobody(t *testing.T) {
	s, err := mcpserver.New(config(), newDirector(), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.ServeStdio(t.Context(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("ServeStdio after Close = nil, want an error")
	}
}
