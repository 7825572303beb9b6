package rest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

func TestOnlyTheServersOwnNamesAreHosts(t *testing.T) {
	local := newWorld(t, func(c *rest.Config) { c.Access = rest.Access{Local: true, Hosts: []string{"kairos.example"}} })
	open := newWorld(t, func(c *rest.Config) { c.Access = rest.Access{Hosts: []string{"kairos.example:443"}} })
	anyHost := newWorld(t, func(c *rest.Config) { c.Access = rest.Access{Local: true, Hosts: []string{"*"}} })
	for host, want := range map[string][3]int{
		"localhost": {200, 200, 200}, "LOCALHOST:1": {200, 200, 200}, "127.0.0.1:99": {200, 200, 200}, "[::1]:80": {200, 200, 200},
		"127.8.8.8": {200, 200, 200}, "localhost.": {200, 200, 200}, "kairos.example:8443": {200, 200, 200},
		"192.0.2.7": {403, 200, 200}, "[2001:db8::1]:3300": {403, 200, 200}, "0.0.0.0": {403, 200, 200},
		"evil.example": {403, 403, 200}, "127.0.0.1.evil.example": {403, 403, 200}, "localhost.evil.example": {403, 403, 200},
		"kairos.example.evil": {403, 403, 200},
	} {
		for i, w := range []*world{local, open, anyHost} {
			for _, path := range []string{"/health", "/mcp", "/api/kairos_spaces"} {
				a := w.get(path, "Host", host)
				if refused := a.status == 403; refused != (want[i] == 403) {
					t.Errorf("server %d, host %s, %s = %d, want refused = %v", i, host, path, a.status, want[i] == 403)
				}
			}
		}
	}
}

func TestOnlyAllowedOriginsMayCall(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Access = rest.Access{Local: true, Origins: []string{"https://App.example"}}
	})
	for origin, allowed := range map[string]bool{
		w.url: true, strings.Replace(w.url, "127.0.0.1", "localhost", 1): false, // another page of this machine
		"http://localhost:5173": false, "https://127.0.0.1": false, "http://[::1]:6274": false, "http://localhost": false,
		"https://app.example": true, "https://app.example:443": true,
		"http://app.example": false, "https://app.example.evil": false, "https://evil.example": false, "null": false,
		"http://localhost.evil.example": false, "http://127.0.0.1@evil.example": false, "file://": false, "chrome-extension://abc": false,
	} {
		a := w.post("kairos_spaces", `{}`, "Origin", origin)
		if (a.status == 200) != allowed {
			t.Errorf("origin %s: %d, want allowed = %v", origin, a.status, allowed)
		}
		if got := a.header.Get("Access-Control-Allow-Origin"); (got == origin) != allowed || (got != "" && !allowed) {
			t.Errorf("origin %s: Access-Control-Allow-Origin %q", origin, got)
		}
		if !allowed && a.fields["error"] != "ORIGIN_NOT_ALLOWED" {
			t.Errorf("origin %s: %s", origin, a.body)
		}
	}
	if a := w.post("kairos_spaces", `{}`); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without an origin: %d %v", a.status, a.header)
	}
}

func TestAPreflightIsAnsweredForAllowedOriginsOnly(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Access.Origins = []string{"http://localhost:6274"} })
	for _, path := range []string{"/mcp", "/api/kairos_next"} {
		a := w.do("OPTIONS", path, nil, "Origin", "http://localhost:6274", "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "mcp-session-id")
		if a.status != 204 || !strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		for _, h := range []string{"Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"} {
			if !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), h) {
				t.Errorf("%s: header %s is not allowed", path, h)
			}
		}
		if !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("%s: exposed %q", path, a.header.Get("Access-Control-Expose-Headers"))
		}
		a = w.do("OPTIONS", path, nil, "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
		if a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s from another origin: %d %v", path, a.status, a.header)
		}
	}
}

func TestEveryPathHasItsMethods(t *testing.T) {
	w := newWorld(t, nil)
	for _, tc := range []struct{ method, path, allow string }{
		{"GET", "/api/kairos_search", "POST, OPTIONS"}, {"DELETE", "/api/kairos_mint/raw", "POST, OPTIONS"},
		{"POST", "/health", "GET, HEAD, OPTIONS"}, {"PUT", "/", "GET, HEAD, OPTIONS"}, {"BREW", "/api", "GET, HEAD, OPTIONS"},
	} {
		if a := w.do(tc.method, tc.path, nil); a.status != 405 || a.header.Get("Allow") != tc.allow {
			t.Errorf("%s %s = %d, Allow %q, want 405, %q", tc.method, tc.path, a.status, a.header.Get("Allow"), tc.allow)
		}
	}
	if a := w.get("/mcp"); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("GET /mcp without a session = %d, Allow %q", a.status, a.header.Get("Allow"))
	}
	if a := w.do("OPTIONS", "/api", nil); a.status != 204 || a.header.Get("Allow") == "" {
		t.Errorf("OPTIONS /api = %d %v", a.status, a.header)
	}
}

func TestThereIsOneSpellingOfEachPath(t *testing.T) {
	w := newWorld(t, nil)
	at := strings.TrimPrefix(w.url, "http://")
	for _, path := range []string{
		"//api/kairos_spaces", "/api//kairos_spaces", "/api/../api/kairos_spaces", "/./api", "/api/kairos_spaces/.", "/api%2fkairos_spaces",
		"/api/kairos%5Fspaces", "/api/%2e%2e/mcp", `/api\kairos_spaces`, "/mcp;x=1", "/mcp//", "/MCP", "/api/kairos_spaces/", "/api/kairos_spaces%00", "*",
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", path)
		reply, _ := io.ReadAll(conn)
		conn.Close()
		if first, _, _ := strings.Cut(string(reply), "\r\n"); !strings.Contains(first, " 400 ") && !strings.Contains(first, " 404 ") {
			t.Errorf("%s: %q", path, first)
		}
	}
}

// Many people write the address of a server with a slash at its end.
func TestMCPIsServedWithASlashAtItsEnd(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/mcp", "/mcp/"} {
		a := w.do("POST", path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if a.status != 200 || !strings.Contains(string(a.body), `"result"`) {
			t.Errorf("POST %s = %d %s", path, a.status, a.body)
		}
	}
}

func TestTheLogHasTheRouteAndNoSecrets(t *testing.T) {
	w := newWorld(t, nil)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	w.post("kairos_search?token=hunter2", `{"query":"hunter2"}`, "Authorization", "Bearer hunter2", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	w.get("/hunter2")
	until(t, "both requests in the log", func() bool { return strings.Count(w.log.String(), "http request") == 2 })
	log := w.log.String()
	for _, want := range []string{"method=POST", "route=/api/kairos_search", "status=200", "principal=local", "route=other", "status=404", "in=19"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
	if strings.Contains(log, "hunter2") {
		t.Errorf("a secret is in the log:\n%s", log)
	}
}

func TestAPanicIsA500AndEndsNothingElse(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.MCP = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the password is hunter2") })
	})
	a := w.do("POST", "/mcp", strings.NewReader(`{}`)).want(500, "")
	if strings.Contains(string(a.body), "hunter2") || a.fields["jsonrpc"] != "2.0" {
		t.Errorf("reply %s", a.body)
	}
	w.get("/healthz").want(200, "")
	until(t, "the call in the log", func() bool { return strings.Contains(w.log.String(), "route=/mcp status=500") })
}

func TestIdentifySaysWhoCalls(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Identify = func(r *http.Request) (access.Caller, error) {
			switch r.Header.Get("Authorization") {
			case "ann":
				return access.Caller{Principal: "ann", Space: "user:test:ann"}, nil
			case "bob":
				return access.Caller{Principal: "bob", Space: "user:test:bob"}, nil
			case "broken":
				return access.Caller{}, io.ErrUnexpectedEOF
			}
			return access.Caller{}, fault.New(fault.Forbidden, "say who you are")
		}
	})
	w.post("kairos_spaces", `{}`).want(403, "forbidden")
	w.post("kairos_spaces", `{}`, "Authorization", "broken").want(500, "")
	w.get("/health").want(200, "")
	w.do("POST", "/api/kairos_mint/raw", strings.NewReader(twoSteps), "Authorization", "ann").want(200, "")
	if a := w.post("kairos_spaces", `{"include_chain_titles":true}`, "Authorization", "ann"); !strings.Contains(string(a.body), "Two Steps") {
		t.Errorf("ann does not see her own: %s", a.body)
	}
	if a := w.post("kairos_spaces", `{"include_chain_titles":true}`, "Authorization", "bob"); strings.Contains(string(a.body), "Two Steps") {
		t.Errorf("bob sees what is ann's: %s", a.body)
	}
}

// tally is an observer.
type tally struct {
	mu     sync.Mutex // guards the fields below
	served []rest.Exchange
	active int
}

func (o *tally) Served(e rest.Exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.served = append(o.served, e)
}

func (o *tally) Active(delta int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active += delta
}

func TestAnObserverHearsOfEveryRequestUnderBoundedNames(t *testing.T) {
	o := &tally{}
	w := newWorld(t, func(c *rest.Config) { c.Observer = o })
	w.post("kairos_search", `{"query":"x"}`)
	w.do("BREW", "/tea/7", nil)
	until(t, "both", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.served) == 2 && o.active == 0
	})
	a, b := o.served[0], o.served[1]
	if a.Method != http.MethodPost || a.Route != "/api/kairos_search" || a.Status != 200 || a.In != 13 || a.Out == 0 || a.Space != "user:local:operator" {
		t.Errorf("search: %+v", a)
	}
	if b.Method != "other" || b.Route != "other" || b.Status != 404 || b.Space != "" {
		t.Errorf("an unknown method and path: %+v", b)
	}
}

func TestTrustedProxiesAreBelieved(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Access = rest.Access{Local: true, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}}
	})
	w.get("/", "X-Forwarded-For", "192.0.2.66, 198.51.100.7, 10.1.1.1")
	until(t, "the address in the log", func() bool { return strings.Contains(w.log.String(), "remote=198.51.100.7") })
	if a := w.get("/.well-known/oauth-protected-resource", "X-Forwarded-Proto", "https"); !strings.HasPrefix(a.str("resource"), "https://") {
		t.Errorf("resource %s", a.str("resource"))
	}
	w = newWorld(t, nil)
	w.get("/", "X-Forwarded-For", "198.51.100.7")
	until(t, "the address in the log", func() bool { return strings.Contains(w.log.String(), "remote=127.0.0.1") })
}

func TestTheMCPEndpointGetsTheAddressOfTheClient(t *testing.T) {
	for name, tc := range map[string]struct {
		proxies []netip.Prefix
		want    string
	}{
		"behind a trusted proxy": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "198.51.100.7:0"},
		"that claims another":    {nil, "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			w := newWorld(t, func(c *rest.Config) {
				c.Access = rest.Access{Local: true, Proxies: tc.proxies}
				c.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })
			})
			for _, method := range []string{"POST", "GET", "DELETE"} {
				if w.do(method, "/mcp", nil, "X-Forwarded-For", "198.51.100.7"); got != tc.want {
					t.Errorf("%s: RemoteAddr = %s, want %s", method, got, tc.want)
				}
				got = ""
			}
		})
	}
}

func TestOneThatCallsTooMuchIsSlowedDown(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Limits = rest.Limits{PerMinute: 1, Burst: 3}
		c.Identify = func(r *http.Request) (access.Caller, error) {
			return access.Caller{Principal: r.Header.Get("Authorization"), Space: "user:test:x"}, nil
		}
	})
	for i := range 4 {
		a := w.post("kairos_spaces", `{}`, "Authorization", "ann")
		if i < 3 {
			a.want(200, "")
			continue
		}
		if a.want(429, "RATE_LIMITED"); a.header.Get("Retry-After") == "" || a.header.Get("Retry-After") == "0" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	a := w.do("POST", "/mcp", strings.NewReader(`{}`), "Authorization", "ann")
	if a.status != 429 || a.fields["jsonrpc"] != "2.0" {
		t.Errorf("MCP calls count elsewhere: %d %s", a.status, a.body)
	}
	w.post("kairos_spaces", `{}`, "Authorization", "bob").want(200, "")
	w.get("/health").want(200, "")
}

// Without a login one client must not use up what others may call: each session
// counts for itself, and what comes without one counts by its address.
func TestSessionsAndAddressesHaveLimitsOfTheirOwn(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		c.Limits = rest.Limits{PerMinute: 1, Burst: 3}
		c.Session = func(id string) bool { return id == "one" || id == "two" }
		c.Access.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	calls := func(address, session string) (allowed int) {
		for range 5 {
			if w.post("kairos_spaces", `{}`, "X-Forwarded-For", address, "Mcp-Session-Id", session).status == 200 {
				allowed++
			}
		}
		return allowed
	}
	for _, tc := range []struct {
		address, session string
		want             int
	}{
		{"192.0.2.1", "one", 3}, {"192.0.2.1", "two", 3}, {"192.0.2.1", "", 3},
		{"192.0.2.1", "made up", 0}, // counts by the address, which has called enough
		{"192.0.2.2", "made up", 3},
		{"192.0.2.1", "one", 0},
	} {
		if got := calls(tc.address, tc.session); got != tc.want {
			t.Errorf("address %s, session %q: %d calls were allowed, want %d", tc.address, tc.session, got, tc.want)
		}
	}
}

// One client fills all places and has many more calls in line; the only call of
// another one gets the second place that becomes free at the latest.
func TestClientsTakeTurnsWhereAllPlacesAreTaken(t *testing.T) {
	worked := make(chan string)
	proceed := make(chan struct{})
	w := newWorld(t, func(c *rest.Config) {
		c.Limits = rest.Limits{Concurrent: 1, WaitsAfter: time.Hour, Patience: time.Hour}
		c.Access.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			worked <- r.Header.Get("X-Forwarded-For")
			<-proceed
		})
	})
	var calls sync.WaitGroup
	call := func(address string) {
		calls.Go(func() { w.do("POST", "/mcp", nil, "X-Forwarded-For", address) })
	}
	const many = 12
	for range many {
		call("192.0.2.1")
	}
	<-worked // one of them has the place
	until(t, "the others in line", func() bool { return w.api.Waiting() == many-1 })
	call("192.0.2.2")
	until(t, "the other client in line", func() bool { return w.api.Waiting() == many })
	position := 0
	for i := 1; i <= many; i++ {
		proceed <- struct{}{}
		if <-worked == "192.0.2.2" {
			position = i
		}
	}
	proceed <- struct{}{}
	calls.Wait()
	if position == 0 || position > 2 {
		t.Errorf("the other client's call was number %d to get a place, want 1 or 2", position)
	}
}

// Of two places both are taken; what waits must not keep others out.
func TestOnlySoManyCallsAreWorkedOnAndThoseThatWaitDoNotCount(t *testing.T) {
	release := make(chan struct{})
	var entered sync.WaitGroup
	waits := time.Hour
	mcp := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Stream") != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		entered.Done()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	start := func(w *world, method string, n int, headers ...string) {
		entered.Add(n)
		for range n {
			go func() {
				req, _ := http.NewRequest(method, w.url+"/mcp", nil)
				for i := 0; i+1 < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				if res, err := w.client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body) // until it ends
					res.Body.Close()
				}
			}()
		}
		entered.Wait()
	}
	t.Run("calls that work", func(t *testing.T) {
		w := newWorld(t, func(c *rest.Config) {
			c.MCP, c.Limits = mcp, rest.Limits{Concurrent: 2, WaitsAfter: waits, Patience: time.Millisecond}
		})
		start(w, "POST", 2)
		a := w.post("kairos_spaces", `{}`).want(503, "BUSY")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
		w.get("/readyz").want(200, "")
		close(release)
		until(t, "a free place", func() bool { return w.post("kairos_spaces", `{}`).status == 200 })
	})
	release = make(chan struct{})
	t.Run("streams", func(t *testing.T) {
		w := newWorld(t, func(c *rest.Config) {
			c.MCP, c.Limits = mcp, rest.Limits{Concurrent: 1, Waiting: 6, WaitsAfter: waits, Patience: time.Second}
		})
		start(w, "GET", 3)
		for range 3 { // one at a time: each needs the only place until it is a stream
			start(w, "POST", 1, "X-Stream", "1")
			until(t, "a free place", func() bool { return w.post("kairos_spaces", `{}`).status == 200 })
		}
		w.do("GET", "/mcp", nil).want(503, "")
		close(release)
	})
	release = make(chan struct{})
	t.Run("calls that take long", func(t *testing.T) {
		w := newWorld(t, func(c *rest.Config) {
			c.MCP, c.Limits = mcp, rest.Limits{Concurrent: 1, Waiting: 2, WaitsAfter: time.Millisecond, Patience: time.Second}
		})
		for range 2 {
			start(w, "POST", 1)
			until(t, "a free place", func() bool { return w.post("kairos_spaces", `{}`).status == 200 })
		}
		start(w, "POST", 1) // nowhere to wait: it keeps its place
		w.post("kairos_spaces", `{}`).want(503, "BUSY")
		close(release)
	})
}
