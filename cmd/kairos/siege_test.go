package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// guest is a client of 2025-11-25 that has forms.
type guest struct {
	*program
	session string
}

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},` +
	`"clientInfo":{"name":"guest","version":"1"}}}`

func (b *program) welcome() *guest {
	b.t.Helper()
	a := b.do("POST", "/mcp", greeting, nil)
	if a.header.Get("Mcp-Session-Id") == "" {
		b.t.Fatalf("initialize = %d %s", a.status, a.body)
	}
	return &guest{b, a.header.Get("Mcp-Session-Id")}
}

// open sends a request of the session and leaves its reply to be read.
func (g *guest) open(method, body string) *http.Response {
	g.t.Helper()
	return g.openFor(g.t.Context(), method, body)
}

// openFor is open for a client that hangs up when ctx ends.
func (g *guest) openFor(ctx context.Context, method, body string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, g.url+"/mcp", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", g.session)
	res, err := g.client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	return res
}

// leave ends the session.
func (g *guest) leave() int {
	g.t.Helper()
	res := g.open("DELETE", "")
	defer res.Body.Close()
	return res.StatusCode
}

// asked calls kairos_next on a person's step, and returns the id of the
// question that the server sends, and the reply to be.
func (g *guest) asked(uri, more string) (id json.RawMessage, reply func() string) {
	g.t.Helper()
	res := g.open("POST", rpcCall(fmt.Sprintf("%q", more), "kairos_next", fmt.Sprintf(`{"uri":%q%s}`, uri, more), "")) //nolint:bodyclose // reply does
	lines := bufio.NewReader(res.Body)
	event := func() string {
		for {
			line, err := lines.ReadString('\n')
			if data, ok := strings.CutPrefix(line, "data: "); ok || err != nil {
				return data
			}
		}
	}
	first := event()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal([]byte(first), &m); err != nil || m.Method != "elicitation/create" {
		g.t.Fatalf("the server said %d %q, want a question\n%s", res.StatusCode, first, g.stderr.String())
	}
	return m.ID, func() string {
		defer res.Body.Close()
		return event()
	}
}

const approved = `{"action":"accept","content":{"confirmation":"approved"}}`

func (g *guest) answer(id json.RawMessage, result string) int {
	g.t.Helper()
	res := g.open("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
	defer res.Body.Close()
	return res.StatusCode
}

// Connections that say nothing, or hardly anything, or do not read, hold what a
// connection takes and no more.
func TestConnectionsThatHangHarmNobody(t *testing.T) {
	t.Parallel() // it mostly waits
	b := startProgram(t, "http: {rate: {per_minute: -1}}\n")
	run := b.begin(b.mint(oneCommand)[0])
	goroutines, memory := b.measure("go_goroutines"), b.memory()
	g := b.welcome()
	var conns []net.Conn
	for i := range 600 {
		conn, err := net.Dial("tcp", b.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		switch i % 4 {
		case 1: // in its headers
			fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A: ")
		case 2: // in its body
			fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
		case 3: // reads no stream
			fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", g.session)
		}
	}
	if grown := b.memory() - memory; grown > 100 {
		t.Errorf("600 connections took %d MiB", grown)
	}
	run.finish()
	for _, conn := range conns[:2] { // nothing, and half a header
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("a connection that asks nothing is still open: %v", err)
		}
	}
	for _, conn := range conns {
		conn.Close()
	}
	b.settles(goroutines)
}

// Sessions beyond the bound replace those that nobody uses, and a session keeps
// a few streams however many are opened.
func TestSessionsAreBounded(t *testing.T) {
	b := startProgram(t, "http: {rate: {per_minute: -1}, max_sessions: 500}\n")
	run := b.begin(b.mint(oneCommand)[0])
	goroutines, memory := b.measure("go_goroutines"), b.memory()
	const callers, each = 100, 105
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				if a, err := b.try("POST", "/mcp", greeting, nil); err != nil || a.status != 200 || a.header.Get("Mcp-Session-Id") == "" {
					t.Errorf("initialize = %d %.200s %v", a.status, a.body, err)
					return
				}
			}
		})
	}
	all.Wait()
	g := b.welcome()
	var streams []*http.Response
	for range 1000 {
		res := g.open("GET", "") //nolint:bodyclose // below, when the streams have ended
		if res.StatusCode != http.StatusOK {
			t.Fatalf("GET = %d", res.StatusCode)
		}
		streams = append(streams, res) //nolint:bodyclose // the same
	}
	for i, res := range streams[:len(streams)-4] {
		if _, err := io.ReadAll(res.Body); err != nil { // it has ended
			t.Fatalf("stream %d: %v", i, err)
		}
		res.Body.Close()
	}
	b.settles(goroutines + 4*3)
	if grown := b.memory() - memory; grown > 150 {
		t.Errorf("%d sessions and 1,000 streams took %d MiB", callers*each, grown)
	}
	if status := g.leave(); status != 200 {
		t.Errorf("DELETE = %d", status)
	}
	for _, res := range streams[len(streams)-4:] {
		if _, err := io.ReadAll(res.Body); err != nil { // the session has ended
			t.Error(err)
		}
		res.Body.Close()
	}
	run.finish()
	b.settles(goroutines)
}

// Clients that are asked and leave keep no session from others, and one address not from
// another one.
func TestClientsThatAreAskedAndLeavePinNoSessions(t *testing.T) {
	b := withShippedDrivers(t, "http: {rate: {per_minute: -1}, max_sessions: 6, max_sessions_per_client: 4, trusted_proxies: [127.0.0.0/8]}\n")
	uri := b.mint(onePerson)[0]
	for range 20 {
		g := b.welcome()
		ctx, leave := context.WithCancel(t.Context())
		res := g.openFor(ctx, "POST", rpcCall(`"x"`, "kairos_next", fmt.Sprintf(`{"uri":%q,"run_id":%q}`, uri, b.begin(uri).run), ""))
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "event:") {
			t.Fatalf("the reply begins with %q, %v, want a question", line, err)
		}
		leave()
		res.Body.Close()
	}
	var streams []*http.Response
	for range 4 {
		streams = append(streams, b.welcome().open("GET", "")) //nolint:bodyclose // below
	}
	if a := b.do("POST", "/mcp", greeting, nil); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "one client may have 4") {
		t.Errorf("initialize beyond the share of an address = %d %s, want 503 that says so", a.status, a.body)
	}
	if a := b.do("POST", "/mcp", greeting, map[string]string{"X-Forwarded-For": "192.0.2.7"}); a.status != 200 {
		t.Errorf("initialize of another address = %d %s", a.status, a.body)
	}
	for _, res := range streams {
		res.Body.Close()
	}
	eventually(t, "the address to get a session again", func() bool { return b.do("POST", "/mcp", greeting, nil).status == 200 })
}

// Exactly one answer to a question counts, whichever client sends it.
func TestWrongAnswersOverHTTPHarmNoRun(t *testing.T) {
	b := startProgram(t, "http: {max_concurrent: 2}\n")
	uri := b.mint(onePerson)[0]
	g, other := b.welcome(), b.welcome()
	begin := func() string { return fmt.Sprintf(`,"run_id":%q`, b.begin(uri).run) }
	first, reply := g.asked(uri, begin()) // starts the drivers
	g.answer(first, approved)
	reply()
	goroutines := b.measure("go_goroutines")
	var waiting []func() string
	var ids []json.RawMessage
	for range 6 { // more than are worked on at a time: those that wait hold no place
		id, reply := g.asked(uri, begin())
		ids, waiting = append(ids, id), append(waiting, reply)
	}
	if a := b.plain("kairos_spaces", "{}"); a.status != 200 {
		t.Errorf("with six calls that wait: %d %s", a.status, a.body)
	}
	other.answer(ids[0], approved)                                      // another's question
	g.answer(json.RawMessage("987654"), approved)                       // none's
	g.answer(ids[1], `{"action":"perhaps"}`)                            // not a form
	g.answer(ids[2], approved)                                          // twice
	g.answer(ids[2], `{"action":"decline"}`)                            //
	g.answer(ids[3], `"yes"`)                                           // no object
	g.answer(ids[4], strings.Repeat("[", 150)+strings.Repeat("]", 150)) // deep
	if status := g.leave(); status != 200 {                             // during the calls; ids[5] is never answered
		t.Errorf("DELETE = %d", status)
	}
	for i, reply := range waiting {
		said := reply()
		if i == 2 && !strings.Contains(said, `"solved":[{`) {
			t.Errorf("answered: %.400s", said)
		}
		if i != 2 && strings.Contains(said, `"solved":[{`) {
			t.Errorf("call %d counts as answered: %.400s", i, said)
		}
	}
	back := b.welcome()
	id, reply := back.asked(uri, begin())
	back.answer(id, approved)
	if said := reply(); !strings.Contains(said, `"solved":[{`) {
		t.Errorf("afterwards: %.400s", said)
	}
	b.settles(goroutines)
}

// A requestState counts once, for its own call, and as it was sealed.
func TestRepeatedAndChangedRetriesHarmNoRun(t *testing.T) {
	b := startProgram(t, "")
	uri := b.mint(onePerson)[0]
	args := fmt.Sprintf(`{"uri":%q,"run_id":%q}`, uri, b.begin(uri).run)
	asked := b.modern("kairos_next", args, "").result(t)
	if asked.ResultType != "input_required" || len(asked.Inputs) != 1 {
		t.Fatalf("%+v\n%s", asked, b.stderr.String())
	}
	var key string
	for key = range asked.Inputs {
	}
	with := func(state, answer string) string {
		return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, state, key, answer)
	}
	for name, a := range map[string]answer{
		"changed":         b.modern("kairos_next", args, with(asked.State[:20]+"A"+asked.State[21:], approved)),
		"cut":             b.modern("kairos_next", args, with(asked.State[:len(asked.State)-4], approved)),
		"of another tool": b.modern("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri), with(asked.State, approved)),
		"other arguments": b.modern("kairos_next", fmt.Sprintf(`{"uri":%q}`, uri), with(asked.State, approved)),
	} {
		if a.status != 400 || !strings.Contains(a.body, "equestState") || len(a.body) > 1000 {
			t.Errorf("a requestState that is %s: %d %.300s", name, a.status, a.body)
		}
	}
	if a := b.modern("kairos_next", args, with(strings.Repeat("A", 1<<20), approved)); a.status != 400 || !strings.Contains(a.body, "the limit is") || len(a.body) > 1000 {
		t.Errorf("a requestState that is a megabyte: %d %.300s", a.status, a.body)
	}
	again := b.modern("kairos_next", args, with(asked.State, "null")).result(t)
	if again.ResultType != "input_required" {
		t.Errorf("without an answer: %+v", again)
	}
	first := b.modern("kairos_next", args, with(again.State, approved))
	if r := first.result(t); len(r.Reply.Solved) != 1 {
		t.Fatalf("answered: %s", first.body)
	}
	if same := b.modern("kairos_next", args, with(asked.State, approved)); same.body != first.body {
		t.Errorf("the same again: %s\nfirst: %s", same.body, first.body)
	}
	if a := b.modern("kairos_next", args, with(asked.State, `{"action":"decline"}`)); a.status != 400 || !strings.Contains(a.body, "already used") {
		t.Errorf("another answer to a question that is answered: %d %s", a.status, a.body)
	}
	// The same nonce with another payload is refused, with the same it is the same.
	run := b.begin(b.mint(oneCommand)[0])
	done := b.plain("kairos_next", run.solution(""))
	if again := b.plain("kairos_next", run.solution("")); again.body != done.body {
		t.Errorf("replayed: %s\nfirst: %s", again.body, done.body)
	}
	if other := b.plain("kairos_next", run.solution(`,"stdout":"other"`)); !strings.Contains(other.body, "every step of this run is solved") {
		t.Errorf("the nonce with another payload: %s", other.body)
	}
}

// A server that is killed while a person is asked continues where it was, for a
// client of the other era.
func TestAKilledServerResumesForTheOtherEra(t *testing.T) {
	b := startProgram(t, "")
	uri := b.mint(onePerson)[0]
	more := fmt.Sprintf(`,"run_id":%q`, b.begin(uri).run)
	b.welcome().asked(uri, more)
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = b.cmd.Wait()
	b.client.CloseIdleConnections()
	fresh := &served{t: t, dir: b.dir}
	b = programOf(fresh.startHTTP())
	args := fmt.Sprintf(`{"uri":%q%s}`, uri, more)
	asked := b.modern("kairos_next", args, "").result(t)
	for key := range asked.Inputs {
		a := b.modern("kairos_next", args, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, asked.State, key, approved))
		if r := a.result(t); len(r.Reply.Solved) != 1 {
			t.Errorf("answered by the other client: %s", a.body)
		}
		return
	}
	t.Errorf("nothing is asked: %+v\n%s", asked, b.stderr.String())
}

// A step that was acknowledged is there after the end, and calls in flight get
// whole replies.
func TestTheEndUnderLoadLosesNoAcknowledgedStep(t *testing.T) {
	b := startProgram(t, "http: {rate: {per_minute: -1}}\n")
	uri := b.mint(oneCommand)[0]
	var mu sync.Mutex
	var solved []opened
	var load sync.WaitGroup
	var ran sync.Once
	enough := make(chan struct{})
	for range 8 {
		load.Go(func() {
			for {
				a, err := b.try("POST", "/mcp", rpcCall(1, "kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri), ""), nil)
				if err != nil || a.status != 200 {
					return
				}
				r := a.result(t).Reply
				o := opened{b, uri, r.RunID, r.Challenge.Nonce, r.Challenge.ProofHash}
				a, err = b.try("POST", "/mcp", rpcCall(1, "kairos_next", o.solution(""), ""), nil)
				if err != nil || a.status != 200 {
					return
				}
				if len(a.result(t).Reply.Solved) == 1 {
					mu.Lock()
					if solved = append(solved, o); len(solved) > 60 {
						ran.Do(func() { close(enough) })
					}
					mu.Unlock()
				}
			}
		})
	}
	<-enough
	if err := b.stop(); err != nil {
		t.Errorf("SIGTERM under load: %v\n%s", err, b.stderr.String())
	}
	load.Wait()
	fresh := &served{t: t, dir: b.dir}
	b = programOf(fresh.startHTTP())
	for _, o := range solved {
		args := fmt.Sprintf(`{"uri":%q,"run_id":%q,"outcome":"success","message":"done"}`, uri, o.run)
		if a := b.plain("kairos_attest", args); !a.result(t).Reply.Verified {
			t.Fatalf("the step of %s was acknowledged and is lost: %s", o.run, a.body)
		}
	}
}

// There is one way to write a request: what two servers could read differently
// is refused.
func TestTricksWithHeadersAndPathsAreRefused(t *testing.T) {
	b := startProgram(t, "")
	body := rpcCall(1, "kairos_spaces", "{}", "")
	post := func(path, headers string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nContent-Type: application/json\r\nAccept: */*\r\n%s\r\n\r\n%s", path, headers, body)
	}
	length := fmt.Sprintf("Content-Length: %d", len(body))
	for name, tc := range map[string]struct{ sent, want string }{
		"as it should be":       {post("/mcp", "Host: localhost\r\n"+length), "200 .*result"},
		"IPv6":                  {post("/mcp", "Host: [::1]:3300\r\n"+length), "200 .*result"},
		"a dot behind":          {post("/mcp", "Host: LOCALHOST.:1\r\n"+length), "200 .*result"},
		"two dots":              {post("/mcp", "Host: localhost..\r\n"+length), "403 .*not called"},
		"no host":               {post("/mcp", length), "400 "},
		"an empty host":         {post("/mcp", "Host:\r\n"+length), "403 .*not called"},
		"two hosts":             {post("/mcp", "Host: localhost\r\nHost: evil.example\r\n"+length), "400 "},
		"a number for a host":   {post("/mcp", "Host: 2130706433\r\n"+length), "403 .*not called"},
		"a user in the host":    {post("/mcp", "Host: localhost@evil.example\r\n"+length), "40[03] "},
		"another's host":        {post("/mcp", "Host: localhost.evil.example\r\n"+length), "403 .*not called"},
		"another's whole path":  {post("http://evil.example/mcp", "Host: localhost\r\n"+length), "403 .*not called"},
		"two lengths":           {post("/mcp", "Host: localhost\r\nContent-Length: 3\r\n"+length), "400 "},
		"a length below zero":   {post("/mcp", "Host: localhost\r\nContent-Length: -1"), "400 "},
		"chunked, gzip":         {post("/mcp", "Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n"+length), "(400|501) "},
		"chunks that are none":  {post("/mcp", "Host: localhost\r\nTransfer-Encoding: chunked") + "\r\n", "400 "},
		"Origin null":           {post("/mcp", "Host: localhost\r\nOrigin: null\r\n"+length), "403 .*null"},
		"two origins":           {post("/mcp", "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n"+length), "403 "},
		"no accept of either":   {post("/mcp", "Host: localhost\r\nAccept: text/*;q=0, application/*;q=NaN\r\n"+length), "406 .*Accept"},
		"a long accept":         {post("/mcp", "Host: localhost\r\nAccept: "+strings.Repeat("a/b,", 10_000)+"\r\n"+length), "200 .*result"},
		"headers without end":   {post("/mcp", "Host: localhost\r\nX-A: "+strings.Repeat("a", 100_000)+"\r\n"+length), "431 "},
		"two slashes":           {post("//mcp", "Host: localhost\r\n"+length), "400 .*canonical"},
		"a slash behind":        {post("/mcp/", "Host: localhost\r\n"+length), "404 "},
		"an escaped letter":     {post("/%6dcp", "Host: localhost\r\n"+length), "400 .*canonical"},
		"an escaped slash":      {post("/api%2fkairos_spaces", "Host: localhost\r\n"+length), "400 .*canonical"},
		"up and down":           {post("/api/../mcp", "Host: localhost\r\n"+length), "400 .*canonical"},
		"up, escaped":           {post("/api/%2e%2e/mcp", "Host: localhost\r\n"+length), "400 .*canonical"},
		"a semicolon":           {post("/mcp;x", "Host: localhost\r\n"+length), "400 .*canonical"},
		"a star":                {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "(400|200) "},
		"CONNECT":               {"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "40[03] "},
		"a method of one's own": {strings.Replace(post("/mcp", "Host: localhost\r\n"+length), "POST", "BREW", 1), "405 .*"},
		"HTTP/0.9":              {"GET /\r\n\r\n", "400 "},
		"HTTP/2":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "(400|505) "},
		"TLS":                   {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400 "},
		"a preflight of others": {"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", "403 "},
	} {
		if got := b.raw(tc.sent); !regexp.MustCompile(`^(?s)`+tc.want).MatchString(got) || len(got) > 3000 {
			t.Errorf("%s: %.300s; want %s", name, got, tc.want)
		}
	}
}

// Names that clients choose make no series of metrics and no lines of the log.
func TestNamesOfClientsMakeNoSeriesAndNoLines(t *testing.T) {
	b := startProgram(t, "http: {rate: {per_minute: -1}}\n")
	const evil = "x\n2026-01-01 level=INFO msg=forged\x1b[31mred\x1b[0m\u2028y"
	evilJSON, _ := json.Marshal(evil)
	uri := b.mint(oneCommand)[0]
	series := b.series()
	for i := range 2_000 {
		switch i % 4 {
		case 0:
			b.do(fmt.Sprintf("BREW%d", i), fmt.Sprintf("/made/up/%d", i), "", nil)
		case 1:
			b.plain(fmt.Sprintf("kairos_%d", i), "{}")
		case 2:
			b.plain("kairos_attest", fmt.Sprintf(`{"uri":%q,"outcome":"failure","message":"m","llm_model_id":"agent-%d"}`, uri, i))
		case 3:
			b.plain("kairos_search", fmt.Sprintf(`{"query":"x","space":"user:made:up-%d"}`, i))
		}
	}
	if grown := b.series() - series; grown > 1500 {
		t.Errorf("made-up names made %d series", grown)
	}
	b.do("POST", "/mcp", strings.Replace(greeting, `"guest"`, string(evilJSON), 1), nil)
	for _, tool := range []string{"kairos_search", "kairos_begin", "kairos_next", "kairos_delete", "kairos_dump", evil} {
		args := fmt.Sprintf(`{"query":%[1]s,"uri":%[1]s,"uris":[%[1]s],"space":%[1]s,"run_id":%[1]s,"markdown_doc":%[1]s}`, evilJSON)
		b.plain(tool, args)
		b.do("POST", "/api/kairos_search", args, map[string]string{"Traceparent": "00-msg=forged level=INFO", "User-Agent": "a msg=forged\tlevel=INFO\u2028", "X-Forwarded-For": "msg=forged"})
	}
	doc, _ := json.Marshal("# " + strings.ReplaceAll(evil, "\n", " ") + "\n\n## A\n\nx\n")
	b.plain("kairos_mint", fmt.Sprintf(`{"markdown_doc":%s,"llm_model_id":%s}`, doc, evilJSON))
	b.begin(uri).finish()
	if log := b.stderr.String(); strings.Contains(log, "\x1b") || strings.Contains(log, "\n2026-01-01 level") || strings.Contains(log, "\u2028") {
		i := strings.IndexAny(log, "\x1b\u2028")
		t.Errorf("the log has what a client made up: %.400q", log[max(0, i-200):])
	}
}

// series counts the lines of the metrics.
func (b *program) series() int { return strings.Count(b.scrape(), "\n") }

// A client that calls too often learns when to try again; health probes stay fast.
func TestTooManyCallsAreRefusedWithATime(t *testing.T) {
	b := startProgram(t, "http: {rate: {per_minute: 60, burst: 20}}\n")
	refused := 0
	for range 40 {
		a := b.plain("kairos_spaces", "{}")
		if a.status == 429 && a.header.Get("Retry-After") != "" && strings.Contains(a.body, "jsonrpc") {
			refused++
		} else if a.status != 200 {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	if refused < 10 {
		t.Errorf("%d of 40 calls were refused, want those beyond 20 at once", refused)
	}
	if a := b.do("GET", "/healthz", "", nil); a.status != 200 {
		t.Errorf("healthz = %d", a.status)
	}
}

// What is wrong with the files of TLS is said at the start, without their content.
func TestWrongFilesOfTLSAreNamed(t *testing.T) {
	dir := t.TempDir()
	secret := "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXNlY3JldA==\n-----END PRIVATE KEY-----\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.pem"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bad.pem": "bad.pem", "none.pem": "no such file", ".": "is a directory"} {
		s := &served{t: t, dir: t.TempDir()}
		file := filepath.Join(dir, name)
		s.write("kairos.yaml", fmt.Sprintf("database: k.db\nadmin: {socket: a.sock}\ndrivers: {dir: %s}\nhttp: {tls: {cert: %s, key: %s}}\n", buildDrivers(t), file, file))
		out, err := s.program("serve", "--http", "127.0.0.1:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "certificate") || strings.Contains(string(out), "c2VjcmV0") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
