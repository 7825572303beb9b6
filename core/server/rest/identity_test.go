package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// keys verifies tokens: ann's and bob's. revoked, if set, ends ann's.
type keys struct{ revoked, looks atomic.Int32 }

func (k *keys) Caller(_ context.Context, token string) (access.Caller, error) {
	k.looks.Add(1)
	switch {
	case token == "anns" && k.revoked.Load() == 0:
		return access.Caller{Principal: "user:test:ann", Credential: "token:1", Space: "user:test:ann"}, nil
	case token == "bobs":
		return access.Caller{Principal: "user:test:bob", Credential: "token:2", Space: "user:test:bob"}, nil
	case token == "broken":
		return access.Caller{}, fmt.Errorf("look up a token: %w", fault.New(fault.StoreUnavailable, "the disk is gone"))
	}
	return access.Caller{}, fault.New(fault.InvalidToken, `this "token" was revoked`)
}

func bearing(k *keys) func(*rest.Config) {
	return func(c *rest.Config) { c.Identify, c.Operator = rest.Bearer(k), nil }
}

func TestACallWithoutATokenIsToldHowToGetIn(t *testing.T) {
	w := newWorld(t, bearing(new(keys)))
	for name, tc := range map[string]struct {
		method, path string
		headers      []string
		code, header string
	}{
		"REST":                  {"POST", "/api/kairos_spaces", nil, "Unauthorized", `Bearer resource_metadata=`},
		"MCP":                   {"POST", "/mcp", nil, "Unauthorized", `Bearer resource_metadata=`},
		"an MCP stream":         {"GET", "/mcp", nil, "Unauthorized", `Bearer resource_metadata=`},
		"the call of operators": {"POST", "/api/runs_list", nil, "Unauthorized", `Bearer resource_metadata=`},
		"a snapshot":            {"POST", "/api/snapshot", nil, "Unauthorized", `Bearer resource_metadata=`},
		"another scheme":        {"POST", "/mcp", []string{"Authorization", "Basic YW5uOmFubnM="}, "Unauthorized", `Bearer resource_metadata=`},
		"no scheme":             {"POST", "/mcp", []string{"Authorization", "anns"}, "Unauthorized", `Bearer resource_metadata=`},
		"a wrong token":         {"POST", "/api/kairos_spaces", []string{"Authorization", "Bearer carls"}, "invalid_token", `Bearer error="invalid_token", error_description="this 'token' was revoked", `},
		"a wrong token at MCP":  {"POST", "/mcp", []string{"Authorization", "Bearer carls"}, "invalid_token", `Bearer error="invalid_token"`},
		"an empty token":        {"POST", "/mcp", []string{"Authorization", "Bearer "}, "invalid_token", "Bearer "},
		"two tokens in one":     {"POST", "/mcp", []string{"Authorization", "Bearer anns, Bearer bobs"}, "invalid_token", "Bearer "},
		"two with a blank":      {"POST", "/mcp", []string{"Authorization", "Bearer anns bobs"}, "invalid_token", "Bearer "},
		"a large one":           {"POST", "/mcp", []string{"Authorization", "Bearer " + strings.Repeat("a", 32<<10)}, "invalid_token", "Bearer "},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(tc.method, tc.path, strings.NewReader(`{}`), append([]string{"Content-Type", "application/json"}, tc.headers...)...)
			a.want(401, tc.code)
			h := a.header.Get("WWW-Authenticate")
			for _, part := range []string{tc.header, `resource_metadata="` + w.url + `/.well-known/oauth-protected-resource"`, `scope="openid"`} {
				if !strings.Contains(h, part) {
					t.Errorf("WWW-Authenticate: %s, want %s in it", h, part)
				}
			}
			if a.str("login_url") != w.url+"/auth/login" || a.str("message") == "" {
				t.Errorf("body = %s, want message and login_url", a.body)
			}
		})
	}
	w.get("/auth/login").want(503, "auth_not_configured")
	for _, open := range []string{"/", "/api", "/health", "/healthz", "/readyz", "/.well-known/oauth-protected-resource/mcp"} {
		w.get(open).want(200, "")
	}
}

// Clients of the earlier server name a space in the query of any route.
func TestAQueryNarrowsACallToOneSpace(t *testing.T) {
	w := newWorld(t, bearing(new(keys)))
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"":                                    {200, ""},
		"?space_id=user:test:ann":             {200, "user:test:ann"},
		"?space=user:test:ann":                {200, "user:test:ann"},
		"?space_id=" + access.AppSpace:        {200, access.AppSpace},
		"?space_id=user:test:bob":             {403, "forbidden"},
		"?space=production":                   {403, "forbidden"},
		"?space_id=user:test:ann&space=other": {403, "forbidden"},
	} {
		a := w.do("POST", "/api/kairos_spaces"+query, strings.NewReader(`{}`), "Content-Type", "application/json", "Authorization", "Bearer anns")
		if a.status != want.status || !strings.Contains(string(a.body), want.says) {
			t.Errorf("kairos_spaces%s = %d %s, want %d and %q", query, a.status, a.body, want.status, want.says)
		}
		if query == "?space_id="+access.AppSpace && strings.Contains(string(a.body), "user:test:ann") {
			t.Errorf("narrowed to %s are listed %s", access.AppSpace, a.body)
		}
	}
	a := w.do("POST", "/mcp?space_id=user:test:bob", strings.NewReader(`{}`), "Content-Type", "application/json", "Authorization", "Bearer anns")
	if a.status != 403 || !strings.Contains(string(a.body), "not in your allowed spaces") {
		t.Errorf("MCP in the space of bob = %d %s, want 403", a.status, a.body)
	}
}

func TestATokenOpensWhatIsItsOwners(t *testing.T) {
	w := newWorld(t, bearing(new(keys)))
	for _, scheme := range []string{"Bearer anns", "bearer anns", "BEARER  anns"} {
		w.post("kairos_spaces", `{}`, "Authorization", scheme).want(200, "")
	}
	w.do("POST", "/api/kairos_mint/raw", strings.NewReader(twoSteps), "Authorization", "Bearer anns").want(200, "")
	for token, sees := range map[string]bool{"anns": true, "bobs": false} {
		a := w.post("kairos_spaces", `{"include_chain_titles":true}`, "Authorization", "Bearer "+token).want(200, "")
		if strings.Contains(string(a.body), "Two Steps") != sees {
			t.Errorf("with %s: %s, want that it sees the protocol: %t", token, a.body, sees)
		}
	}
	w.post("kairos_spaces", `{}`, "Authorization", "Bearer broken").want(503, "")
	until(t, "the log names the token", func() bool { return strings.Contains(w.log.String(), "credential=token:1") })
	if log := w.log.String(); strings.Contains(log, "anns") || strings.Contains(log, "broken") {
		t.Errorf("the log has a token: %s", log)
	}
}

func TestATokenComesOnceAndInTheHeader(t *testing.T) {
	k := new(keys)
	w := newWorld(t, bearing(k))
	for _, query := range []string{"?access_token=anns", "?a=b&token=anns", "?bearer_token=anns", "?access_token"} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer anns"}} {
			a := w.do("POST", "/api/kairos_mint/raw"+query, strings.NewReader(twoSteps), headers...).want(400, "INVALID_INPUT")
			if !strings.Contains(a.str("message"), "revoke it") {
				t.Errorf("%s: %s, want that it says what to do", query, a.body)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/api/kairos_spaces", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer anns", "Bearer bobs"}}
	w.send(req).want(400, "INVALID_INPUT")
	if n := k.looks.Load(); n != 0 {
		t.Errorf("%d tokens were looked at, want none", n)
	}
}

func TestWrongTokensAreCountedByAddressAndRightOnesDoNotWait(t *testing.T) {
	w := newWorld(t, bearing(new(keys)))
	var refused, limited int
	for range 100 {
		switch a := w.post("kairos_spaces", `{}`, "Authorization", "Bearer carls"); a.status {
		case 401:
			refused++
		case 429:
			if limited++; a.header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		default:
			t.Fatalf("a wrong token = %d %s", a.status, a.body)
		}
	}
	if refused < 20 || limited == 0 {
		t.Errorf("%d wrong tokens were refused and %d limited, want at least 20 and some", refused, limited)
	}
	w.post("kairos_spaces", `{}`, "Authorization", "Bearer anns").want(200, "")
	w.post("kairos_spaces", `{}`).want(401, "Unauthorized")
}

// endless is an MCP endpoint whose calls last as long as their context: GET as a stream, and
// POST without a reply.
func endless(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		_, _ = rw.Write([]byte(": open\n\n"))
		_ = http.NewResponseController(rw).Flush()
	}
	if who, ok := access.CallerOf(r.Context()); !ok || who.Principal != "user:test:ann" {
		panic(fmt.Sprintf("the endpoint is called by %+v", who))
	}
	<-r.Context().Done()
}

func TestARevokedTokenEndsItsStreamsAndCalls(t *testing.T) {
	k := new(keys)
	w := newWorld(t, func(c *rest.Config) {
		bearing(k)(c)
		c.MCP = http.HandlerFunc(endless)
	})
	open := func(method string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, w.url+"/mcp", strings.NewReader(`{}`))
		if err != nil {
			t.Error(err)
			return nil
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer anns"}}
		res, err := w.client.Do(req)
		if err != nil {
			t.Error(err)
			return nil
		}
		return res
	}
	stream := open("GET")
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != ": open\n" {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	waits := make(chan int, 1)
	go func() {
		res := open("POST")
		if res != nil {
			res.Body.Close()
			waits <- res.StatusCode
			return
		}
		waits <- 0
	}()
	looks := k.looks.Load()
	until(t, "both calls are looked at again", func() bool { return k.looks.Load() >= looks+4 })
	select {
	case status := <-waits:
		t.Fatalf("the call ended with %d before the token was revoked", status)
	default:
	}
	began := time.Now()
	k.revoked.Store(1)
	for {
		if _, err := lines.ReadString('\n'); err != nil {
			break
		}
	}
	if status := <-waits; status != 401 {
		t.Errorf("the call that waited = %d, want 401", status)
	}
	t.Logf("both ended after %s", time.Since(began))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("both ended after %s, want less than a second", took)
	}
	until(t, "nobody is looked at any more", func() bool {
		before := k.looks.Load()
		time.Sleep(time.Second) // longer than the interval of the looks
		return k.looks.Load() == before
	})
}

func TestTheTokenOfTheServerIsThatOfItsOperator(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) {
		bearing(new(keys))(c)
		withToken(c)
	})
	id := w.begun(access.Caller{Principal: "local", Space: "user:local:operator"}, twoSteps)
	for token, sees := range map[string]bool{"secret": true, "anns": false} {
		if a := w.post("runs_list", `{}`, "Authorization", "Bearer "+token).want(200, ""); strings.Contains(string(a.body), string(id)) != sees {
			t.Errorf("runs_list with %s = %s, want that it sees the run: %t", token, a.body, sees)
		}
	}
	w.post("kairos_spaces", `{}`, "Authorization", "Bearer secret").want(401, "invalid_token")
}
