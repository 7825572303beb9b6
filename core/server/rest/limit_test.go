package rest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

func TestABodyIsNoLargerThanTheLimit(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits.Body = 1000 })
	big := strings.Repeat("x", 2000)
	for _, path := range []string{"/api/kairos_search", "/api/kairos_mint/raw", "/mcp"} {
		w.do("POST", path, strings.NewReader(big), "Content-Type", "application/json").want(413, "")
		// Without a length, as it comes.
		w.do("POST", path, io.MultiReader(strings.NewReader(big)), "Content-Type", "application/json").want(413, "")
	}
	w.post("kairos_search", `{"query":"fits"}`).want(200, "")
}

func TestOddBodiesAreRefusedAndHarmNothing(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(twoSteps)
	begun := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uris[0]))
	var keys bytes.Buffer
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	solution := func(rest string) string {
		return fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell",%s}}`, uris[0], rest)
	}
	for name, tc := range map[string]struct {
		body     string
		status   int
		mentions string
	}{
		"10 MB of output":         {solution(`"shell":{"exit_code":0,"stdout":"` + strings.Repeat("x", 10<<20) + `"}`), 400, "at most"},
		"1,000,000 keys":          {solution(keys.String() + `"x":1`), 400, "values"},
		"1,000,000 keys at once":  {"{" + keys.String() + `"x":1}`, 400, "values"},
		"deep nesting":            {solution(`"shell":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)), 400, "nested"},
		"deep lists, never ended": {strings.Repeat("[", 1_000_000), 400, "nested"},
		"no UTF-8":                {solution(`"shell":{"stdout":"` + "\xff\xfe" + `"}`), 400, "UTF-8"},
		"half a string":           {`{"uri":"`, 400, "JSON"},
		"a solution that is text": {fmt.Sprintf(`{"uri":%q,"solution":"done"}`, uris[0]), 400, "solution"},
		"brackets in a string":    {fmt.Sprintf(`{"query":%q}`, strings.Repeat("[", 1000)), 400, "uri"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			a := w.post("kairos_next", tc.body).want(tc.status, "INVALID_INPUT")
			if !strings.Contains(a.str("message"), tc.mentions) {
				t.Errorf("message %.200q does not mention %q", a.str("message"), tc.mentions)
			}
		})
	}
	w.t = t
	if a := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":%s}`, uris[0], begun.solution(0))); a.str("current_step", "uri") != uris[1] {
		t.Errorf("the run was harmed: %s", a.body)
	}
}

func TestOtherMediaAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	body := `{"query":"x"}`
	for media, status := range map[string]int{
		"application/json; charset=utf-8": 200, "application/vnd.kairos+json": 200, "": 200,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, ";;": 415,
	} {
		if a := w.do("POST", "/api/kairos_search", strings.NewReader(body), "Content-Type", media); a.status != status {
			t.Errorf("%q = %d %s, want %d", media, a.status, a.body, status)
		}
	}
}

// slowly opens connections whose bodies do not come.
func (w *world) slowly() (slow []net.Conn) {
	t := w.t
	t.Helper()
	for range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /api/kairos_search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"que")
		slow = append(slow, conn)
	}
	return slow
}

func TestBodiesThatComeSlowlyHoldNoPlace(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits = rest.Limits{BodyTime: time.Hour, Concurrent: 1} })
	w.slowly()
	w.post("kairos_search", `{"query":"x"}`).want(200, "") // the only place is free
}

func TestBodiesThatComeSlowlyAreGivenUp(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits = rest.Limits{BodyTime: 300 * time.Millisecond} })
	for _, conn := range w.slowly() {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		reply, err := io.ReadAll(conn) // to the end: the connection is closed
		if err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 408 ") {
			t.Fatalf("a slow body: %v %q", err, reply)
		}
	}
}

// A body that nobody wants is not waited for either.
func TestRefusedBodiesThatComeSlowlyAreGivenUp(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits = rest.Limits{BodyTime: 200 * time.Millisecond} })
	for _, line := range []string{"GET /healthz", "POST /nowhere", "DELETE /api/kairos_search"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx", line)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("%s: %v, want the connection closed", line, err)
		}
	}
}

// The deadline of the body must not be one of the call.
func TestACallMayTakeLongerThanItsBody(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits.BodyTime = 50 * time.Millisecond })
	// On a busy machine a body may be late that was sent at once.
	inTime := func(tool, body string, headers ...string) (a answer) {
		until(t, "a body that comes in time", func() bool { a = w.post(tool, body, headers...); return a.status != 408 })
		return a.want(200, "")
	}
	uri := inTime("kairos_mint/raw?llm_model_id=test", twoSteps, "Content-Type", "text/markdown").fields["items"].([]any)[0].(map[string]any)["uri"].(string)
	begun := inTime("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri))
	entered, release := w.drivers.hold()
	defer release()
	go func() {
		<-entered
		<-time.After(200 * time.Millisecond) // longer than the body had
		release()
	}()
	if a := inTime("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":%s}`, uri, begun.solution(0))); a.str("error_code") != "" {
		t.Errorf("reply %s", a.body)
	}
}

// Room for a large body is reserved before it is read: one that is announced and
// does not come keeps others out for a while, but no small one.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Limits = rest.Limits{Bodies: 100_000, BodyTime: time.Hour, Patience: 10 * time.Millisecond}
	})
	large := `{"query":"` + strings.Repeat("x", 20_000) + `"}`
	searches := func(status int) bool { return w.post("kairos_search", large).status == status }
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx")
	until(t, "the room to be taken", func() bool { return w.api.Reserved() == 100_000 })
	if a := w.post("kairos_search", large).want(503, "BUSY"); a.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", a.header)
	}
	// Nor is there room for one whose length is not told.
	w.do("POST", "/api/kairos_search", io.MultiReader(strings.NewReader(large)), "Content-Type", "application/json").want(503, "BUSY")
	w.post("kairos_search", `{"query":"x"}`).want(200, "") // calls of the usual size are served
	conn.Close()
	until(t, "the room to be free", func() bool { return searches(200) })
	w.do("POST", "/api/kairos_search", io.MultiReader(strings.NewReader(large)), "Content-Type", "application/json").want(200, "")
}

// One client must not take all of the room: what it announces beyond its share
// waits, and another client's body does not wait behind it.
func TestOneClientLeavesRoomForOthers(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Limits = rest.Limits{Body: 40_000, Bodies: 100_000, BodyTime: time.Hour, Patience: time.Hour}
		c.Access.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	announce := func(address string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\nContent-Length: 40000\r\n\r\nx", address)
	}
	announce("192.0.2.1")
	until(t, "the first body", func() bool { return w.api.Reserved() == 40_000 })
	announce("192.0.2.1")
	until(t, "the second one in line", func() bool { return w.api.Waiting() == 1 })
	large := `{"query":"` + strings.Repeat("x", 20_000) + `"}`
	w.post("kairos_search", large, "X-Forwarded-For", "192.0.2.2").want(200, "")
	if n := w.api.Reserved(); n != 40_000 {
		t.Errorf("%d bytes are reserved behind the other client's call, want 40000", n)
	}
}

// A client that sends all of a body that is too large and only then reads must
// find the reply, not a connection that was reset.
func TestTheRefusalOfALargeBodyCanBeRead(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Limits.Body = 8 << 20 })
	body := bytes.Repeat([]byte("x"), 24<<20)
	for name, header := range map[string]string{
		"with a length": fmt.Sprintf("Content-Length: %d", len(body)),
		"in chunks":     "Transfer-Encoding: chunked",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/kairos_mint/raw HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", header)
		if header == "Transfer-Encoding: chunked" {
			fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		} else if _, err := conn.Write(body); err != nil {
			t.Errorf("%s: the body could not be sent: %v", name, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if reply, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 413 ") || !strings.Contains(string(reply), "BODY_TOO_LARGE") {
			t.Errorf("%s: %v %.200q, want 413", name, err, reply)
		}
	}
}

// Many clients that send the most expensive documents at once must not take the
// memory of the machine.
func TestManyLargeDocumentsAtOnceTakeLittleMemory(t *testing.T) {
	clients, most := 64, uint64(2<<30)
	if testing.Short() {
		clients, most = 16, 1<<30
	}
	w := newWorld(t, func(c *rest.Config) { c.Limits.Patience = 30 * time.Second })
	// As the program has it.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	doc := "# T\n" + strings.Repeat("## h"+strings.Repeat("x", 50)+"\n", (10<<20-100)/55)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			metrics.Read(sample)
			highest = max(highest, sample[0].Value.Uint64()-sample[1].Value.Uint64())
			select {
			case <-stop:
				peak <- highest
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	var calls sync.WaitGroup
	statuses := make(chan int, clients)
	for range clients {
		calls.Go(func() {
			statuses <- w.do("POST", "/api/kairos_mint/raw", strings.NewReader(doc), "Content-Type", "text/markdown").status
		})
	}
	calls.Wait()
	close(stop)
	if got := <-peak; got > most {
		t.Errorf("%d documents of %d bytes at once took %d MiB, want at most %d", clients, len(doc), got>>20, most>>20)
	}
	close(statuses)
	refused := 0
	for s := range statuses {
		if s == 422 {
			refused++
		} else if s != 503 {
			t.Errorf("a document was answered with %d, want 422 or 503", s)
		}
	}
	if refused == 0 {
		t.Error("no document was looked at")
	}
	w.get("/readyz").want(200, "")
}

func TestAStreamThatNobodyReadsEndsAndOneThatIsReadDoesNot(t *testing.T) {
	ended := make(chan error, 1)
	w := newWorld(t, func(c *rest.Config) {
		c.Limits.WriteTime = 500 * time.Millisecond
		c.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			chunk := bytes.Repeat([]byte("x"), 1<<16)
			if r.Header.Get("X-Slow") != "" {
				chunk = []byte("data: x\n\n")
			}
			control := http.NewResponseController(w)
			for range 20_000 {
				if _, err := w.Write(chunk); err != nil {
					ended <- err
					return
				}
				if err := control.Flush(); err != nil {
					ended <- err
					return
				}
				if r.Header.Get("X-Slow") != "" {
					select {
					case <-r.Context().Done():
						ended <- nil
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
			ended <- errors.New("everything was written to a client that reads nothing")
		})
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err := <-ended; err == nil || strings.Contains(err.Error(), "everything") {
		t.Errorf("a client that reads nothing: %v", err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/mcp", nil)
	req.Header.Set("X-Slow", "1")
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	began := time.Now()
	for time.Since(began) < 1500*time.Millisecond { // three times the time of one write
		if _, err := res.Body.Read(make([]byte, 100)); err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
	}
	w.api.Drain()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("a drained stream ends with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the drained stream: %v", err)
	}
	w.get("/readyz").want(503, "")
}

func FuzzBodies(f *testing.F) {
	w := newWorld(f, nil)
	uri := w.mint(twoSteps)[0]
	tools := []string{"search", "begin", "next", "attest", "update", "delete", "dump", "spaces", "mint/raw"}
	for i := range tools {
		for _, seed := range []string{
			`{}`, `null`, `[]`, `{"query":"x","space":null}`, `{"uri":"` + uri + `","solution":{"type":"shell","shell":{"exit_code":1e999}}}`,
			`{"uri":"` + uri + `","outcome":"success","message":"m","quality_bonus":-1}`, `{"uris":["` + uri + `"],"updates":{"text":"\ud800"}}`,
			`{"uris":[null,1,""],"markdown_doc":["# x"]}`, `{"limit":-5,"cursor":"x"}`, "# A\n\n## B\n", "\"# A\\n\\n## B\"", "\x00\xff", `{"uri":"`,
		} {
			f.Add(i, seed)
		}
	}
	f.Fuzz(func(t *testing.T, tool int, body string) {
		if tool < 0 || tool >= len(tools) {
			return
		}
		here := *w
		here.t = t
		a := here.post("kairos_"+tools[tool], body)
		if a.status >= 500 || a.fields == nil {
			t.Errorf("%s %q = %d %s", tools[tool], body, a.status, a.body)
		}
	})
}
