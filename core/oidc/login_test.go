package oidc_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/oidc"
)

var server = oidc.Client{ID: "kairos", Secret: "kairos-secret"}

const callback = "https://kairos.example/auth/callback"

// logins is an issuer at which people log in, too.
type logins struct {
	*issuer

	challenge, nonce string // of the login that was begun last
	key              string // that signs
	more             map[string]any
	status           int // of the replies to codes
}

func newLogins(t *testing.T) *logins {
	t.Helper()
	i := newIssuer(t)
	l := &logins{issuer: i, key: "one", status: http.StatusOK}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[1]s/authorize?prompt=login","token_endpoint":"%[1]s/token","jwks_uri":"%[1]s/keys"}`, i.url)
		case "/token":
			l.exchange(w, r)
		default:
			i.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(listening.Close)
	i.url = listening.URL
	return l
}

func (l *logins) exchange(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case l.status != http.StatusOK:
		w.WriteHeader(l.status)
	case id != server.ID || secret != string(server.Secret) || r.FormValue("redirect_uri") != callback,
		r.FormValue("code") != "good" || base64.RawURLEncoding.EncodeToString(sum[:]) != l.challenge:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
	default:
		reply := map[string]any{"access_token": "x", "token_type": "Bearer"}
		if l.key != "" {
			claims := map[string]any{"aud": server.ID, "azp": nil, "nonce": l.nonce}
			for name, value := range l.more {
				claims[name] = value
			}
			reply["id_token"] = l.token(l.key, claims)
		}
		_ = json.NewEncoder(w).Encode(reply)
	}
}

// begin begins a login, as a browser does.
func (l *logins) begin(t *testing.T, p *oidc.Provider) (to *url.URL, b oidc.Begun) {
	t.Helper()
	address, b, err := p.Begin(t.Context(), server, callback)
	if err != nil {
		t.Fatal(err)
	}
	if to, err = url.Parse(address); err != nil {
		t.Fatal(err)
	}
	l.challenge, l.nonce = to.Query().Get("code_challenge"), to.Query().Get("nonce")
	return to, b
}

func TestAPersonLogsIn(t *testing.T) {
	l := newLogins(t)
	p := l.provider(t, clock.System())
	to, b := l.begin(t, p)
	q := to.Query()
	if q.Get("client_id") != "kairos" || q.Get("redirect_uri") != callback || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("state") != b.State || q.Get("nonce") != b.Nonce || q.Get("prompt") != "login" || !strings.Contains(q.Get("scope"), "openid") {
		t.Errorf("the browser goes to %s", to)
	}
	if strings.Contains(to.String(), b.Verifier) || strings.Contains(to.String(), string(server.Secret)) {
		t.Errorf("the address has a secret: %s", to)
	}
	who, err := p.Finish(t.Context(), server, b, url.Values{"code": {"good"}, "state": {b.State}, "iss": {l.url}})
	who.Credential = ""
	want := oidc.Identity{Principal: "user:acme:ada", Name: "Ada Lovelace", Groups: []string{"group:acme:eng", "group:acme:sre"}}
	if diff := cmp.Diff(want, who); err != nil || diff != "" {
		t.Errorf("Finish = %v, (-want +got)\n%s", err, diff)
	}
	l.more = map[string]any{"name": nil, "groups": nil}
	if who, err := p.Finish(t.Context(), server, b, url.Values{"code": {"good"}, "state": {b.State}}); err != nil || who.Name != "ada" {
		t.Errorf("without a name: %+v, %v, want ada", who, err)
	}
}

func TestAnAnswerThatIsNotOfTheLoginLogsNobodyIn(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(l *logins, b *oidc.Begun, answer url.Values)
		says   string
	}{
		"another state":  {func(_ *logins, _ *oidc.Begun, a url.Values) { a.Set("state", "x") }, "of another login"},
		"no state":       {func(_ *logins, b *oidc.Begun, a url.Values) { a.Del("state"); b.State = "" }, "of another login"},
		"another issuer": {func(_ *logins, _ *oidc.Begun, a url.Values) { a.Set("iss", "https://id.example") }, "another identity provider"},
		"an error": {func(_ *logins, _ *oidc.Begun, a url.Values) {
			a.Set("error", "access_denied\r\n"+strings.Repeat("x", 64<<10))
		}, "access_denied"},
		"no code":              {func(_ *logins, _ *oidc.Begun, a url.Values) { a.Del("code") }, "no code"},
		"another code":         {func(_ *logins, _ *oidc.Begun, a url.Values) { a.Set("code", "bad") }, "did not take its own code"},
		"another verifier":     {func(_ *logins, b *oidc.Begun, _ url.Values) { b.Verifier = strings.Repeat("v", 43) }, "did not take its own code"},
		"another callback":     {func(_ *logins, b *oidc.Begun, _ url.Values) { b.Callback = "https://evil.example" }, "did not take its own code"},
		"too late":             {func(_ *logins, b *oidc.Begun, _ url.Values) { b.At = b.At.Add(-11 * time.Minute) }, "more than ten minutes"},
		"no token":             {func(l *logins, _ *oidc.Begun, _ url.Values) { l.key = "" }, "the scope openid"},
		"another nonce":        {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"nonce": "x"} }, "of another login"},
		"no nonce":             {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"nonce": nil} }, "of another login"},
		"another client":       {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"aud": "agent"} }, "for another client"},
		"another party":        {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"azp": "agent"} }, "for another client"},
		"several and no party": {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"aud": []string{"kairos", "x"}} }, "for another client"},
		"expired": {func(l *logins, _ *oidc.Begun, _ url.Values) {
			l.more = map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}
		}, "expired"},
		"of another issuer": {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"iss": "https://id.example"} }, "Nobody was logged in"},
		"of a foreign key": {func(l *logins, _ *oidc.Begun, _ url.Values) {
			l.publish("one", "two")
			l.publish("one")
			l.key = "two"
		}, "does not publish"},
		"a subject that is none": {func(l *logins, _ *oidc.Begun, _ url.Values) { l.more = map[string]any{"sub": ""} }, "its claim sub"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogins(t)
			p := l.provider(t, clock.System())
			_, b := l.begin(t, p)
			answer := url.Values{"code": {"good"}, "state": {b.State}}
			tc.change(l, &b, answer)
			who, err := p.Finish(t.Context(), server, b, answer)
			if fault.CodeOf(err) != fault.InvalidToken || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("Finish = %+v, %.1200v, want %s that says %q in one line", who, err, fault.InvalidToken, tc.says)
			}
		})
	}
}

func TestNobodyLogsInWhileTheProviderIsDown(t *testing.T) {
	l := newLogins(t)
	p := l.provider(t, clock.System())
	_, b := l.begin(t, p)
	l.status = http.StatusServiceUnavailable
	if _, err := p.Finish(t.Context(), server, b, url.Values{"code": {"good"}, "state": {b.State}}); fault.CodeOf(err) != fault.IdentityUnavailable {
		t.Errorf("Finish = %v, want %s", err, fault.IdentityUnavailable)
	}
	down := newIssuer(t)
	down.set(true)
	if _, _, err := down.provider(t, clock.New(clocktest.New(time.Now()))).Begin(t.Context(), server, callback); fault.CodeOf(err) != fault.IdentityUnavailable {
		t.Errorf("Begin = %v, want %s", err, fault.IdentityUnavailable)
	}
}

func TestTheSecretOfTheClientDoesNotShow(t *testing.T) {
	for _, how := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(how, server); strings.Contains(text, "kairos-secret") {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
}
