package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/sessions"
)

// site is a server with an HTTP address.
type site struct {
	t      testing.TB
	server *mcpserver.Server
	http   *httptest.Server
}

func newSite(t testing.TB, cfg mcpserver.Config, e mcpserver.Engine) *site {
	t.Helper()
	return newSiteBehind(t, cfg, e, func(h http.Handler) http.Handler { return h })
}

// newSiteBehind is a site with another handler in front.
func newSiteBehind(
	t testing.TB, cfg mcpserver.Config, e mcpserver.Engine, front func(http.Handler) http.Handler,
) *site {
	t.Helper()
	s, err := mcpserver.New(cfg, e, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(front(s.HTTP()))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		h.Client().CloseIdleConnections()
		h.Close()
	})
	return &site{t, s, h}
}

// visitor is a client of a site.
type visitor struct {
	*site
	session string
	who     string
	id      int
}

// visit opens a session with these capabilities.
func (s *site) visit(capabilities string) *visitor {
	s.t.Helper()
	v := &visitor{site: s}
	v.initialize(capabilities)
	return v
}

func (v *visitor) initialize(capabilities string) {
	v.t.Helper()
	r := v.post(rpc(0, "initialize", obj{
		"protocolVersion": "2025-11-25", "capabilities": json.RawMessage(capabilities),
		"clientInfo": obj{"name": "old", "version": "1"},
	}), nil)
	v.session = r.header.Get("Mcp-Session-Id")
	if m := r.reply("0"); r.status != http.StatusOK || m.Error != nil || v.session == "" {
		v.t.Fatalf("initialize = %d, session %q, %v", r.status, v.session, m)
	}
	if r := v.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil); r.status != http.StatusAccepted {
		v.t.Fatalf("initialized = %d, want 202", r.status)
	}
}

func rpc(id any, method string, params any) string {
	text, err := json.Marshal(obj{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// response is an HTTP response, whose messages are read as those of a wire.
type response struct {
	*wire
	status int
	header http.Header
}

func (r *response) isStream() bool { return r.header.Get("Content-Type") == "text/event-stream" }

// post sends one message; headers replace the usual ones.
func (v *visitor) post(body string, headers obj) *response {
	v.t.Helper()
	return v.do(http.MethodPost, strings.NewReader(body), headers)
}

func (v *visitor) do(method string, body io.Reader, headers obj) *response {
	v.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, v.http.URL, body)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if v.session != "" {
		req.Header.Set("Mcp-Session-Id", v.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if v.who != "" {
		req.Header.Set("X-Who", v.who)
	}
	for k, value := range headers {
		req.Header.Del(k)
		if text := fmt.Sprint(value); text != "" {
			req.Header.Set(k, text)
		}
	}
	res, err := v.http.Client().Do(req) //nolint:bodyclose // events closes that of a stream
	if err != nil {
		cancel()
		v.t.Fatalf("%s: %v", method, err)
	}
	r := &response{
		wire: &wire{t: v.t, msgs: make(chan msg, 1000)}, status: res.StatusCode, header: res.Header,
	}
	if r.isStream() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.events(res.Body)
		}()
		v.t.Cleanup(func() { cancel(); <-done })
		return r
	}
	defer cancel()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatalf("read response: %v", err)
	}
	if len(text) > 0 {
		r.msgs <- decode[msg](v.t, text)
	}
	close(r.msgs)
	return r
}

// events takes the messages of a stream until it ends.
func (r *response) events(body io.ReadCloser) {
	defer close(r.msgs)
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			var m msg
			if err := json.Unmarshal(data, &m); err != nil {
				r.t.Errorf("event %q is not JSON: %v", data, err)
			}
			r.msgs <- m
		}
	}
}

// over waits for the end of the stream.
func (r *response) over() {
	r.t.Helper()
	for range r.msgs {
	}
}

// call calls a tool in the visitor's session, if there is one.
func (v *visitor) call(tool string, args any) (string, *response) {
	v.t.Helper()
	v.id++
	return fmt.Sprint(v.id), v.post(rpc(v.id, "tools/call", obj{"name": tool, "arguments": args}), nil)
}

// modern calls a tool as a 2026-07-28 client.
func (v *visitor) modern(capabilities, tool string, args any, extra obj) (string, *response) {
	v.t.Helper()
	v.id++
	params := obj{"name": tool, "arguments": args, "_meta": modernMeta(capabilities)}
	for k, value := range extra {
		params[k] = value
	}
	return fmt.Sprint(v.id), v.post(rpc(v.id, "tools/call", params), modernHeaders("tools/call", tool))
}

func modernHeaders(method, name string) obj {
	return obj{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
}

// answer posts the answer to a question, and expects it to be taken.
func (v *visitor) answer(id json.RawMessage, result string) {
	v.t.Helper()
	v.sends(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), http.StatusAccepted)
}

// answerInVain answers a question that is not open.
func (v *visitor) answerInVain(id json.RawMessage, result string) {
	v.t.Helper()
	v.sends(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), http.StatusBadRequest)
}

// sends posts a message that gets no reply.
func (v *visitor) sends(message string, status int) {
	v.t.Helper()
	if r := v.post(message, nil); r.status != status {
		v.t.Errorf("%s = %d, want %d", message, r.status, status)
	}
}

func TestPostWithoutASessionIsThatOfAClientThatCanDoNothing(t *testing.T) {
	d := newDirector(elicit("sure?"))
	v := &visitor{site: newSite(t, config(), d)}
	id, r := v.call("kairos_begin", beginArgs)
	if r.isStream() || r.status != http.StatusOK {
		t.Errorf("response %d, stream %v; want 200 with JSON", r.status, r.isStream())
	}
	if got := r.step(id); len(got.Solved) != 1 || !strings.Contains(string(got.Solved[0].Output), "-32601") {
		t.Errorf("solved = %+v, want the question refused in the client's place", got.Solved)
	}
	if c := d.lastCaller(); c.Connection != "" || c.Client.Transport != "http" || c.Principal != "local" {
		t.Errorf("caller = %+v, want no connection, http, local", c)
	}
}

func TestLegacyHTTPClientIsAskedOnTheStreamOfItsCall(t *testing.T) {
	d := newDirector(elicit("sure?"), sample("how much?"))
	roots := director.Ask{Method: "roots/list", Params: json.RawMessage(`{}`)}
	d.asks = append(d.asks, roots)
	v := newSite(t, config(), d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	if !r.isStream() {
		t.Fatalf("response %d %v, want a stream", r.status, r.header)
	}
	v.answer(r.question("elicitation/create").ID, accepted)
	asked := r.question("sampling/createMessage")
	if got, want := string(asked.Params), string(d.asks[1].Params); got != want {
		t.Errorf("sampling params = %s, want them verbatim: %s", got, want)
	}
	v.answer(asked.ID, `{"role":"assistant","content":{"type":"text","text":"42"},"model":"m"}`)
	v.answer(r.question("roots/list").ID, `{"roots":[]}`)
	if got := r.step(id); len(got.Solved) != 3 || string(got.Solved[0].Output) != accepted {
		t.Errorf("solved = %+v, want all answers as the client sent them", got.Solved)
	}
	r.over()
	if c := d.lastCaller(); c.Connection != sessions.Key(v.session) || c.Client.Name != "old" || !c.Client.Sampling {
		t.Errorf("caller = %+v, want the session's client", c)
	}
}

func TestHTTPRequestsThatAreNotMCPAreRefused(t *testing.T) {
	s := newSite(t, config(), newDirector())
	known := s.visit(`{}`)
	ping := rpc(1, "ping", obj{})
	meta := func(method string, m obj) string { return rpc(1, method, obj{"_meta": m}) }
	list := meta("tools/list", modernMeta(`{}`))
	future := modernMeta(`{}`)
	future["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
	for name, tc := range map[string]struct {
		method, body, session string
		headers               obj
		status, code          int
	}{
		"no JSON":                   {body: `{"jsonrpc":`, status: 400, code: -32700},
		"not UTF-8":                 {body: "{\"jsonrpc\":\"\xff\"}", status: 400, code: -32700},
		"nothing":                   {body: ``, status: 400, code: -32700},
		"batch":                     {body: `[` + ping + `]`, status: 400, code: -32600},
		"deep":                      {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}`, status: 400, code: -32700},
		"many keys":                 {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + strings.Repeat(`"a":1,`, 1_000_000) + `"b":2}}`, status: 400, code: -32700},
		"long id":                   {body: rpc(strings.Repeat("i", 5000), "ping", obj{}), status: 400, code: -32600},
		"id an object":              {body: rpc(obj{}, "ping", obj{}), status: 400, code: -32600},
		"too large":                 {body: `"` + strings.Repeat("a", 33<<20) + `"`, status: 413, code: -32000},
		"accepts text":              {body: ping, headers: obj{"Accept": "text/html"}, status: 406, code: -32000},
		"accepts JSON alone":        {body: ping, headers: obj{"Accept": "application/json"}, status: 406, code: -32000},
		"accepts streams alone":     {body: ping, headers: obj{"Accept": "text/event-stream"}, status: 406, code: -32000},
		"accepts all but JSON":      {body: ping, headers: obj{"Accept": "*/*, application/json;q=0"}, status: 406, code: -32000},
		"no Accept":                 {body: ping, headers: obj{"Accept": ""}, status: 406, code: -32000},
		"accepts everything":        {body: ping, headers: obj{"Accept": "*/*"}, status: 200},
		"accepts by weight":         {body: ping, headers: obj{"Accept": "Application/JSON;q=0.5 , text/*; q=0.1"}, status: 200},
		"no content type":           {body: ping, headers: obj{"Content-Type": ""}, status: 415, code: -32000},
		"other content type":        {body: ping, headers: obj{"Content-Type": "text/plain"}, status: 415, code: -32000},
		"content type with charset": {body: ping, headers: obj{"Content-Type": "application/json; charset=utf-8"}, status: 200},
		"unknown session":           {body: ping, session: "nobody", status: 404, code: -32001},
		"unknown version":           {body: ping, session: known.session, headers: obj{"Mcp-Protocol-Version": "1999-01-01"}, status: 400, code: -32000},
		"no version":                {body: ping, session: known.session, headers: obj{"Mcp-Protocol-Version": ""}, status: 200},
		"answer without session":    {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 400, code: -32000},
		"answer nobody asked for":   {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, session: known.session, status: 400, code: -32000},
		"notification":              {body: `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, status: 202},
		"unknown method":            {body: rpc(1, "no/such", obj{}), status: 200, code: -32601},
		"GET":                       {method: "GET", status: 405, code: -32000},
		"GET modern":                {method: "GET", session: known.session, headers: obj{"Mcp-Protocol-Version": "2026-07-28"}, status: 405, code: -32000},
		"GET of nobody":             {method: "GET", session: "nobody", status: 404, code: -32001},
		"GET of JSON":               {method: "GET", session: known.session, headers: obj{"Accept": "application/json"}, status: 406, code: -32000},
		"DELETE":                    {method: "DELETE", status: 405, code: -32000},
		"DELETE modern":             {method: "DELETE", session: known.session, headers: obj{"Mcp-Protocol-Version": "2026-07-28"}, status: 405, code: -32000},
		"DELETE of nobody":          {method: "DELETE", session: "nobody", status: 404, code: -32001},
		"PUT":                       {method: "PUT", body: ping, status: 405, code: -32000},

		"modern":                      {body: list, headers: modernHeaders("tools/list", ""), status: 200},
		"modern ignores the session":  {body: list, session: "nobody", headers: modernHeaders("tools/list", ""), status: 200},
		"modern without headers":      {body: list, headers: obj{"Mcp-Protocol-Version": ""}, status: 400, code: -32020},
		"modern, old header":          {body: list, headers: obj{"Mcp-Protocol-Version": "2025-11-25"}, status: 400, code: -32020},
		"modern header alone":         {body: ping, headers: modernHeaders("ping", ""), status: 400, code: -32602},
		"modern without method":       {body: list, headers: modernHeaders("", ""), status: 400, code: -32020},
		"modern, other method":        {body: list, headers: modernHeaders("tools/call", "x"), status: 400, code: -32020},
		"modern without name":         {body: rpc(1, "tools/call", obj{"name": "kairos_spaces", "_meta": modernMeta(`{}`)}), headers: modernHeaders("tools/call", ""), status: 400, code: -32020},
		"modern, other name":          {body: rpc(1, "tools/call", obj{"name": "kairos_spaces", "_meta": modernMeta(`{}`)}), headers: modernHeaders("tools/call", "kairos_dump"), status: 400, code: -32020},
		"modern resumes":              {body: list, headers: obj{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list", "Last-Event-ID": "1"}, status: 400, code: -32020},
		"future":                      {body: meta("tools/list", future), headers: obj{"Mcp-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"}, status: 400, code: -32022},
		"modern without capabilities": {body: meta("tools/list", obj{"io.modelcontextprotocol/protocolVersion": "2026-07-28"}), headers: modernHeaders("tools/list", ""), status: 400, code: -32602},
		"modern ping":                 {body: meta("ping", modernMeta(`{}`)), headers: modernHeaders("ping", ""), status: 404, code: -32601},
		"modern initialize":           {body: meta("initialize", modernMeta(`{}`)), headers: modernHeaders("initialize", ""), status: 404, code: -32601},
		"modern answer":               {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, headers: modernHeaders("", ""), status: 400, code: -32600},
		"modern notification":         {body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, headers: modernHeaders("notifications/cancelled", ""), status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.method == "" {
				tc.method = http.MethodPost
			}
			v := &visitor{site: &site{t, s.server, s.http}, session: tc.session}
			r := v.do(tc.method, strings.NewReader(tc.body), tc.headers)
			if r.status != tc.status {
				t.Errorf("status = %d, want %d", r.status, tc.status)
			}
			m := <-r.msgs
			if got := m.Error; (got == nil) != (tc.code == 0) || (got != nil && got.Code != tc.code) {
				t.Errorf("answer = %v, want code %d", m, tc.code)
			}
			if allow := r.header.Get("Allow"); (allow != "") != (tc.status == 405) || allow != "" && !strings.Contains(allow, "POST") {
				t.Errorf("Allow = %q with status %d", allow, r.status)
			}
		})
	}
}

func TestModernSubscriptionIsAcknowledgedOnAStream(t *testing.T) {
	v := &visitor{site: newSite(t, config(), newDirector())}
	r := v.post(rpc(1, "subscriptions/listen", obj{
		"_meta": modernMeta(`{}`), "notifications": obj{"toolsListChanged": true},
	}), modernHeaders("subscriptions/listen", ""))
	m := r.reply("1")
	if !r.isStream() || m.Error != nil || len(r.kept) != 1 || r.kept[0].Method != "notifications/subscriptions/acknowledged" {
		t.Errorf("subscription = %v after %v, want an acknowledgement first", m, r.kept)
	}
}

// asked identifies callers by a header.
func asked(r *http.Request) (access.Caller, error) {
	switch who := r.Header.Get("X-Who"); who {
	case "nobody":
		return access.Caller{}, fault.New(fault.Forbidden, "not you")
	case "broken":
		return access.Caller{}, errors.New("the directory is down")
	default:
		who, shown, _ := strings.Cut(who, "/")
		return access.Caller{Principal: who, Credential: shown, Space: "space:" + who, Groups: []string{"group:a"}}, nil
	}
}

func TestSessionBelongsToItsPrincipal(t *testing.T) {
	cfg := config()
	cfg.Identify = asked
	d := newDirector(elicit("sure?"))
	s := newSite(t, cfg, d)
	alice := &visitor{site: s, who: "alice"}
	alice.initialize(everything)
	id, r := alice.call("kairos_begin", beginArgs)
	question := r.question("elicitation/create")

	mallory := &visitor{site: s, who: "mallory", session: alice.session}
	for what, r := range map[string]*response{
		"call":   mallory.post(rpc(1, "ping", obj{}), nil),
		"answer": mallory.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, question.ID), nil),
		"stream": mallory.do(http.MethodGet, nil, nil),
		"end":    mallory.do(http.MethodDelete, nil, nil),
	} {
		if r.status != http.StatusNotFound {
			t.Errorf("%s in another's session = %d, want 404", what, r.status)
		}
	}
	mallory.initialize(everything)
	mallory.answerInVain(question.ID, `{"action":"decline"}`)
	alice.answer(question.ID, accepted)
	if got := r.step(id); string(got.Solved[0].Output) != accepted {
		t.Errorf("solved = %s, want the answer of its own client", got.Solved[0].Output)
	}
	if c := d.lastCaller(); c.Principal != "alice" || c.Space != "space:alice" || len(c.Groups) != 1 {
		t.Errorf("caller = %+v, want alice with her space and groups", c)
	}
	for who, want := range map[string]int{"nobody": 403, "broken": 500} {
		if r := (&visitor{site: s, who: who}).post(rpc(1, "ping", obj{}), nil); r.status != want {
			t.Errorf("%s = %d, want %d", who, r.status, want)
		}
	}
}
