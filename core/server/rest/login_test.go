package rest_test

import (
	"context"
	"fmt"
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

// browsers keeps logins in memory. Each is a number: link-1 makes login-1.
type browsers struct {
	mu    sync.Mutex // guards the fields below
	links map[string]bool
	in    map[string]bool
}

func newBrowsers(links ...string) *browsers {
	b := &browsers{links: map[string]bool{}, in: map[string]bool{}}
	for _, l := range links {
		b.links["link-"+l] = true
	}
	return b
}

func (b *browsers) bob(secret string) access.Caller {
	number := secret[strings.LastIndexByte(secret, '-')+1:]
	return access.Caller{Principal: "user:test:bob", Name: "Bob <b>", Credential: "session:" + number, Method: access.ByLogin, Space: "user:test:bob", Groups: []string{"user:test:ann"}}
}

func (b *browsers) found(all map[string]bool, secret string) (access.Caller, error) {
	if !all[secret] {
		return access.Caller{}, fault.New(fault.InvalidToken, "it never was")
	}
	return b.bob(secret), nil
}

func (b *browsers) LoggedIn(_ context.Context, secret string) (access.Caller, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found(b.in, secret)
}

func (b *browsers) Linked(_ context.Context, link string) (access.Caller, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found(b.links, link)
}

func (b *browsers) LogIn(_ context.Context, link string) (rest.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.found(b.links, link)
	if err != nil {
		return rest.Session{}, err
	}
	delete(b.links, link)
	secret := strings.Replace(link, "link", "login", 1)
	b.in[secret] = true
	return rest.Session{Caller: c, Secret: secret, Lasts: time.Hour}, nil
}

func (b *browsers) LogOut(_ context.Context, c access.Caller) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.in, "login-"+strings.TrimPrefix(c.Credential, "session:"))
	return nil
}

// annsCalls sends the calls of an agent with ann's token, and pages as they are.
type annsCalls struct{ next http.RoundTripper }

func (a annsCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Cookie") == "" {
		r.Header.Set("Authorization", "Bearer anns")
	}
	return a.next.RoundTrip(r)
}

// withLogins is a world in which ann's agent works and people log in.
func withLogins(t *testing.T, b *browsers, change func(*rest.Config)) *world {
	t.Helper()
	w := newWorld(t, func(c *rest.Config) {
		c.Identify, c.Operator, c.Logins = rest.Bearer(new(keys)), nil, b
		if change != nil {
			change(c)
		}
	})
	w.client.Transport = annsCalls{w.client.Transport}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w
}

const bobs = "kairos=login-1"

// loggedIn is a world in which bob has logged in, and its logins.
func loggedIn(t *testing.T) (*world, *browsers) {
	t.Helper()
	b := newBrowsers("1", "2")
	w := withLogins(t, b, nil)
	if a := w.do("POST", "/auth/link/link-1", nil); a.status != http.StatusSeeOther {
		t.Fatalf("the link = %d %s, want 303", a.status, a.body)
	}
	return w, b
}

func setCookies(a answer) string { return strings.Join(a.header.Values("Set-Cookie"), "\n") }

func wantPage(t *testing.T, what string, a answer, status int, says string) {
	t.Helper()
	if a.status != status || !strings.Contains(string(a.body), says) || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		_, body, _ := strings.Cut(string(a.body), "<main>")
		t.Errorf("%s = %d %s\n%s, want %d and a page that says %q", what, a.status, a.header, body, status, says)
	}
}

func TestAPageThatNeedsALoginShowsNothingOfTheRun(t *testing.T) {
	w := withLogins(t, newBrowsers(), nil)
	path, again := w.gate("")
	for name, headers := range map[string][]string{
		"nothing": nil, "a bearer token": {"Authorization", "Bearer anns"}, "a cookie of nobody": {"Cookie", "kairos=login-9"},
		"an empty cookie": {"Cookie", "kairos="}, "the cookie of another scheme": {"Cookie", "__Host-kairos=login-1"},
	} {
		for _, method := range []string{"GET", "POST"} {
			a := w.do(method, path, nil, headers...)
			wantPage(t, method+" with "+name, a, 401, "This page needs a login")
			for _, of := range []string{"Ship it", "Release", "shell"} {
				if strings.Contains(string(a.body), of) {
					t.Errorf("the page shows %q of the run", of)
				}
			}
		}
	}
	a := w.get(path)
	if want := "kairos-return=" + path + "; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"; setCookies(a) != want {
		t.Errorf("Set-Cookie: %s, want %s", setCookies(a), want)
	}
	wantPage(t, "an approval that never was", w.get("/approve/run/secret"), 401, "This page needs a login")
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("something was decided: %s", r.body)
	}
}

func TestSomebodyWhoHasLoggedInAnswers(t *testing.T) {
	w, _ := loggedIn(t)
	path, again := w.gate("")
	a := w.get(path, "Cookie", bobs)
	wantPage(t, "the page", a, 200, "Ship it")
	for _, says := range []string{
		"Logged in as <b>Bob &lt;b&gt;</b>", "The record will say that user:test:bob answered on this page, after a login.",
		"An agent of user:test:ann waits for your decision", "as the program calls itself", `action="../../auth/logout"`,
	} {
		if !strings.Contains(string(a.body), says) {
			t.Errorf("the page does not say %q:\n%s", says, a.body)
		}
	}
	form := "decision=approved&digest=" + digestField.FindStringSubmatch(string(a.body))[1]
	if a := w.do("POST", path, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded", "Cookie", bobs); a.status != http.StatusSeeOther {
		t.Fatalf("the answer = %d %s, want 303", a.status, a.body)
	}
	wantPage(t, "the page after it", w.get(path, "Cookie", bobs), 200, "by user:test:bob")
	if r := again(); r.str("error_code") != "" {
		t.Errorf("after the approval: %s", r.body)
	}
}

func TestALinkIsUsedByItsButtonAndOnce(t *testing.T) {
	b := newBrowsers("1")
	w := withLogins(t, b, nil)
	for _, method := range []string{"GET", "HEAD", "GET"} { // as link previews do
		a := w.do(method, "/auth/link/link-1", nil)
		if a.status != 200 || setCookies(a) != "" || a.header.Get("Referrer-Policy") != "same-origin" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s = %d %s, want a page that logs nobody in", method, a.status, a.header)
		}
	}
	wantPage(t, "the link", w.get("/auth/link/link-1"), 200, "Log in as Bob &lt;b&gt;?")
	a := w.do("POST", "/auth/link/link-1", nil, "Sec-Fetch-Site", "same-origin", "Origin", w.url)
	if want := "kairos=login-1; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"; a.status != 303 || setCookies(a) != want || a.header.Get("Location") != "../login" {
		t.Errorf("POST = %d %s, want %s", a.status, a.header, want)
	}
	for _, method := range []string{"GET", "POST"} {
		wantPage(t, method+" again", w.do(method, "/auth/link/link-1", nil), 404, "This link does not log in")
	}
	wantPage(t, "the page of the login", w.get("/auth/login", "Cookie", bobs), 200, "You are logged in")
	for _, changed := range []string{"/auth/link/link-1/", "/auth/link", "/auth/link/link%2D1"} {
		wantPage(t, changed, w.get(changed), map[bool]int{true: 400, false: 404}[strings.Contains(changed, "%")], "This link was changed on its way")
	}
	if strings.Contains(w.log.String(), "link-1") {
		t.Error("the log has the secret of a link")
	}
}

func TestALoginLeadsBackToPagesOfThisServerOnly(t *testing.T) {
	for back, want := range map[string]string{
		"/approve/run/secret": "../../approve/run/secret", "": "../login", "//evil.example": "../login", `/\evil.example`: "../login",
		"https://evil.example/approve/run/secret": "../login", "/approve/../../evil": "../login", "/approve/run/..": "../login",
		"//evil.example/approve/run/secret": "../login", "/auth/logout": "../login", "/approve/run/secret%0d%0aX:y": "../login",
		"/approve/run/" + strings.Repeat("x", 4<<10): "../login",
	} {
		w := withLogins(t, newBrowsers("1"), nil)
		a := w.do("POST", "/auth/link/link-1", nil, "Cookie", `kairos-return=`+back)
		if got := a.header.Get("Location"); a.status != 303 || got != want {
			t.Errorf("back to %q = %d %q, want %q", back, a.status, got, want)
		}
	}
}

func TestALoginBeginsAnewAndEndsTheOneBefore(t *testing.T) {
	w, _ := loggedIn(t)
	// Somebody who knows the cookie of the browser from before does not know that of the login.
	a := w.do("POST", "/auth/link/link-2", nil, "Cookie", bobs)
	if !strings.HasPrefix(setCookies(a), "kairos=login-2;") {
		t.Errorf("Set-Cookie: %s, want another secret", setCookies(a))
	}
	wantPage(t, "the earlier login", w.get("/approve/run/secret", "Cookie", bobs), 401, "This page needs a login")
	wantPage(t, "two logins at once", w.get("/approve/run/secret", "Cookie", "kairos=login-2; kairos=login-3"), 401, "This page needs a login")
	wantPage(t, "the login", w.get("/approve/run/secret", "Cookie", "kairos=login-2"), 404, "No such approval")
}

func TestACookieCountsOnPagesAlone(t *testing.T) {
	w, _ := loggedIn(t)
	for _, path := range []string{"/mcp", "/api/kairos_spaces", "/api/runs_list"} {
		w.do("POST", path, strings.NewReader(`{}`), "Content-Type", "application/json", "Cookie", bobs).want(401, "Unauthorized")
	}
	// With both, a page is that of the person and a call is that of the token.
	wantPage(t, "a page with a token besides", w.get("/auth/login", "Cookie", bobs, "Authorization", "Bearer anns"), 200, "user:test:bob")
	w.do("POST", "/api/kairos_spaces", strings.NewReader(`{}`), "Content-Type", "application/json", "Cookie", bobs, "Authorization", "Bearer carls").want(401, "invalid_token")
}

func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	w, b := loggedIn(t)
	path, again := w.gate("")
	form := "decision=approved&digest=" + digestField.FindStringSubmatch(string(w.get(path, "Cookie", bobs).body))[1]
	for _, from := range []string{"cross-site", "same-site"} {
		for _, to := range []string{path, "/auth/link/link-2", "/auth/logout"} {
			a := w.do("POST", to, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded", "Cookie", bobs, "Sec-Fetch-Site", from)
			wantPage(t, from+" "+to, a, 403, "This did not come from the page")
		}
	}
	for _, to := range []string{path, "/auth/link/link-2", "/auth/logout"} { // of an old browser
		if a := w.do("POST", to, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded", "Cookie", bobs, "Origin", "https://evil.example"); a.status != 403 {
			t.Errorf("%s from another origin = %d, want 403", to, a.status)
		}
	}
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("something was decided: %s", r.body)
	}
	if !b.links["link-2"] || !b.in["login-1"] {
		t.Errorf("links %v, logins %v, want both as they were", b.links, b.in)
	}
}

func TestLoggingOutEndsTheLogin(t *testing.T) {
	w, _ := loggedIn(t)
	w.get("/auth/logout").want(405, "")
	a := w.do("POST", "/auth/logout", nil, "Cookie", bobs)
	wantPage(t, "logging out", a, 200, "You are logged out")
	if got := setCookies(a); !strings.HasPrefix(got, "kairos=; Path=/; Max-Age=0;") {
		t.Errorf("Set-Cookie: %s, want that it is taken away", got)
	}
	wantPage(t, "the page after it", w.get("/approve/run/secret", "Cookie", bobs), 401, "This page needs a login")
	wantPage(t, "logging out again", w.do("POST", "/auth/logout", nil, "Cookie", bobs), 200, "You are logged out")
}

func TestOverTLSTheCookieIsThatOfTheHostAlone(t *testing.T) {
	w := withLogins(t, newBrowsers("1"), func(c *rest.Config) {
		c.Access.Proxies, c.Access.Hosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{"kairos.example"}
	})
	tls := []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1"}
	a := w.do("POST", "/auth/link/link-1", nil, tls...)
	if want := "__Host-kairos=login-1; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax"; setCookies(a) != want {
		t.Errorf("Set-Cookie: %s, want %s", setCookies(a), want)
	}
	wantPage(t, "with it", w.get("/auth/login", append(tls, "Cookie", "__Host-kairos=login-1")...), 200, "You are logged in")
	wantPage(t, "with the cookie of a connection in the clear", w.get("/auth/login", append(tls, "Cookie", bobs)...), 200, "Nobody is logged in")
	wantPage(t, "through a proxy that has no TLS", w.get("/auth/login", "X-Forwarded-Proto", "http"), 403, "in the clear")
}

func TestNobodyLogsInInTheClear(t *testing.T) {
	w := withLogins(t, newBrowsers("1"), func(c *rest.Config) { c.Access.Hosts = []string{"kairos.example"} })
	for _, path := range []string{"/auth/link/link-1", "/auth/login", "/approve/run/secret"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "kairos.example"
		wantPage(t, path, w.send(req), 403, "A login would cross the network in the clear")
	}
	wantPage(t, "through a proxy that is not trusted", w.get("/auth/login", "X-Forwarded-Proto", "https"), 403, "http.trusted_proxies")
}

func TestGuessingLinksIsLimited(t *testing.T) {
	w := withLogins(t, newBrowsers("1"), nil)
	var limited int
	for n := range 100 {
		path, cookie := fmt.Sprintf("/auth/link/guess-%d", n), fmt.Sprintf("kairos=guess-%d", n)
		for _, a := range []answer{w.get(path), w.get("/approve/run/secret", "Cookie", cookie)} {
			if a.status == 429 {
				limited++
				wantPage(t, "one guess too many", a, 429, "Too many attempts")
			}
		}
	}
	if limited < 100 {
		t.Errorf("%d of 200 guesses were limited, want most", limited)
	}
	wantPage(t, "a link that is right", w.get("/auth/link/link-1"), 200, "Log in as")
}

func TestWithoutALoginThereAreNoPages(t *testing.T) {
	w := newWorld(t, bearing(new(keys)))
	w.get("/approve/run/secret").want(404, "")
	w.get("/auth/link/link-1").want(404, "")
}
