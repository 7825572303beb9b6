package rest_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// provider is an identity provider at which bob logs in. The answer "code=good" of the browser
// that has begun is right.
type provider struct{ *browsers }

func (p provider) Begin(_ context.Context, base string) (to, kept string, err error) {
	return "https://id.example/authorize?redirect_uri=" + url.QueryEscape(base+rest.CallbackPath), "kept-1", nil
}

func (p provider) Finish(ctx context.Context, kept string, answer url.Values) (rest.Session, error) {
	if kept != "kept-1" || answer.Get("code") != "good" {
		return rest.Session{}, fault.New(fault.InvalidToken, "The identity provider did not log you in: %s.", answer.Get("error"))
	}
	return p.LogIn(ctx, "link-1")
}

func withProvider(t *testing.T, change func(*rest.Config)) *world {
	t.Helper()
	b := newBrowsers("1", "2")
	return withLogins(t, b, func(c *rest.Config) {
		c.SignOn = provider{b}
		if change != nil {
			change(c)
		}
	})
}

func TestAPersonLogsInAtTheProvider(t *testing.T) {
	w := withProvider(t, nil)
	path, _ := w.gate("")
	wantPage(t, "a page without a login", w.get(path), 401, `href="../../auth/login"`)
	a := w.get("/auth/login")
	if to, want := a.header.Get("Location"), "https://id.example/authorize?redirect_uri="+url.QueryEscape(w.url+"/auth/callback"); a.status != http.StatusSeeOther || to != want {
		t.Errorf("/auth/login = %d %q, want 303 %q", a.status, to, want)
	}
	if want := "kairos-flow=kept-1; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"; setCookies(a) != want {
		t.Errorf("Set-Cookie: %s, want %s", setCookies(a), want)
	}
	a = w.get("/auth/callback?code=good&state=s", "Cookie", "kairos-flow=kept-1; kairos-return="+path)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != ".."+path {
		t.Errorf("the callback = %d %q, want back to the page", a.status, a.header.Get("Location"))
	}
	for _, want := range []string{"kairos=login-1; Path=/; Max-Age=3600;", "kairos-flow=; Path=/; Max-Age=0;", "kairos-return=; Path=/; Max-Age=0;"} {
		if !strings.Contains(setCookies(a), want) {
			t.Errorf("Set-Cookie: %s, want %s", setCookies(a), want)
		}
	}
	wantPage(t, "the page", w.get(path, "Cookie", bobs), 200, "Ship it")
	wantPage(t, "the page of the login", w.get("/auth/login", "Cookie", bobs), 200, "You are logged in")
	wantPage(t, "logging out", w.do("POST", "/auth/logout", nil, "Cookie", bobs), 200, "You are logged out") // and not in again at once
	if strings.Contains(w.log.String(), "good") || strings.Contains(w.log.String(), "kept-1") {
		t.Error("the log has a code, or what the browser keeps")
	}
}

// The groups of a person are those of a login, which ends soon: the next page leads to the provider, and
// an answer without a login counts for nothing.
func TestALoginThatHasEndedLeadsToTheProviderAgain(t *testing.T) {
	w := withProvider(t, nil)
	path, again := w.gate("")
	w.get("/auth/callback?code=good&state=s", "Cookie", "kairos-flow=kept-1")
	page := w.get(path, "Cookie", bobs)
	form := "decision=approved&digest=" + digestField.FindStringSubmatch(string(page.body))[1]
	w.do("POST", "/auth/logout", nil, "Cookie", bobs) // ends the login; this browser keeps its cookie
	a := w.do("POST", path, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded", "Cookie", bobs)
	wantPage(t, "an answer after the login", a, 401, "Your answer was not recorded")
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("something was decided: %s", r.body)
	}
	a = w.get(path, "Cookie", bobs)
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "https://id.example/authorize") || strings.Contains(string(a.body), "Ship it") {
		t.Errorf("the page after the login = %d %s, want 303 to the provider", a.status, a.header)
	}
	if want := "kairos-return=" + path + ";"; !strings.Contains(setCookies(a), want) {
		t.Errorf("Set-Cookie: %s, want %s", setCookies(a), want)
	}
	wantPage(t, "a browser without a cookie", w.get(path), 401, "This page needs a login")
}

func TestALoginAtTheProviderIsOfTheBrowserThatHasBegun(t *testing.T) {
	w := withProvider(t, nil)
	for name, tc := range map[string]struct {
		query, cookie string
		status        int
		says          string
	}{
		"another browser":           {"code=good", "kairos=login-9", 400, "This login is over"},
		"the cookie of another":     {"code=good", "kairos-flow=kept-2", 401, "did not log you in"},
		"two cookies":               {"code=good", "kairos-flow=kept-1; kairos-flow=kept-2", 400, "This login is over"},
		"a code that is wrong":      {"code=bad", "kairos-flow=kept-1", 401, "did not log you in"},
		"an error of the provider":  {"error=access_denied", "kairos-flow=kept-1", 401, "access_denied"},
		"markup in what it answers": {"error=<script>", "kairos-flow=kept-1", 401, "&lt;script&gt;"},
	} {
		a := w.get("/auth/callback?"+tc.query, "Cookie", tc.cookie)
		wantPage(t, name, a, tc.status, tc.says)
		if strings.Contains(setCookies(a), "kairos=") {
			t.Errorf("%s: Set-Cookie: %s, want no login", name, setCookies(a))
		}
	}
	if a := w.do("HEAD", "/auth/callback?code=good", nil, "Cookie", "kairos-flow=kept-1"); a.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD = %d, want 405", a.status)
	}
}

func TestTheProviderSendsBackToTheAddressOfTheBrowser(t *testing.T) {
	w := withProvider(t, func(c *rest.Config) {
		c.Access.Proxies, c.Access.Hosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{"kairos.example"}
	})
	a := w.do("GET", "/auth/login", nil, "Host", "kairos.example", "X-Forwarded-Proto", "https")
	if to := a.header.Get("Location"); !strings.HasSuffix(to, url.QueryEscape("https://kairos.example/auth/callback")) || !strings.HasPrefix(setCookies(a), "__Host-kairos-flow=") {
		t.Errorf("/auth/login = %q %s, want back by https and a cookie of this host", to, setCookies(a))
	}
	wantPage(t, "in the clear", w.do("GET", "/auth/login", nil, "Host", "kairos.example"), 403, "in the clear")
}
