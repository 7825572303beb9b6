package oidc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/oidc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "https://kairos.example"

// issuer is a provider whose keys and answers the test decides about.
type issuer struct {
	t   testing.TB
	url string

	mu      sync.Mutex // guards the fields below
	server  *oidctest.Server
	keys    map[string]*rsa.PrivateKey
	down    bool
	fetched int
}

func newIssuer(t testing.TB, algorithms ...string) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: map[string]*rsa.PrivateKey{}, server: &oidctest.Server{Algorithms: algorithms}}
	listening := httptest.NewServer(i)
	t.Cleanup(listening.Close)
	i.url = listening.URL
	i.server.SetIssuer(i.url)
	i.publish("one")
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "openid-configuration") {
		i.fetched++
	}
	if i.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	i.server.ServeHTTP(w, r)
}

// publish makes these keys the ones that are published.
func (i *issuer) publish(ids ...string) {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.server.PublicKeys = nil
	for _, id := range ids {
		if i.keys[id] == nil {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				i.t.Fatal(err)
			}
			i.keys[id] = key
		}
		i.server.PublicKeys = append(i.server.PublicKeys, oidctest.PublicKey{PublicKey: i.keys[id].Public(), KeyID: id, Algorithm: "RS256"})
	}
}

func (i *issuer) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetched
}

// claims are those of ada for an hour, changed by more; nil leaves one out.
func (i *issuer) claims(more map[string]any) string {
	i.t.Helper()
	now := time.Now()
	all := map[string]any{
		"iss": i.url, "sub": "ada", "aud": []string{"account", audience}, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "jti": "1", "azp": "agent",
		"name": "Ada Lovelace", "groups": []string{"/eng", "sre"},
	}
	maps.Copy(all, more)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

func (i *issuer) token(key string, more map[string]any) string {
	return oidctest.SignIDToken(i.keys[key], key, "RS256", i.claims(more))
}

func (i *issuer) provider(t testing.TB, at *clock.Clock) *oidc.Provider {
	t.Helper()
	p := oidc.New(oidc.Config{Issuer: i.url, Audience: audience, Realm: "acme", Clock: at}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestATokenOfTheProviderIsAPersons(t *testing.T) {
	i := newIssuer(t)
	p := i.provider(t, clock.System())
	want := oidc.Identity{Principal: "user:acme:ada", Name: "Ada Lovelace", Groups: []string{"group:acme:eng", "group:acme:sre"}, Application: "agent", Credential: "jwt:6b86b273ff34fce1"}
	for name, tc := range map[string]struct {
		more   map[string]any
		change func(*oidc.Identity)
	}{
		"as it is":                  {nil, func(*oidc.Identity) {}},
		"one audience":              {map[string]any{"aud": audience}, func(*oidc.Identity) {}},
		"the ids of groups":         {map[string]any{"group_ids": []string{"g-1"}}, func(w *oidc.Identity) { w.Groups = []string{"group:acme:g-1"} }},
		"roles":                     {map[string]any{"groups": nil, "realm_access": map[string]any{"roles": []string{"dev"}}}, func(w *oidc.Identity) { w.Groups = []string{"group:acme:dev"} }},
		"no groups":                 {map[string]any{"groups": []string{}, "realm_access": map[string]any{"roles": []string{"dev"}}}, func(w *oidc.Identity) { w.Groups = nil }},
		"a group twice":             {map[string]any{"groups": []string{"eng", "/eng"}}, func(w *oidc.Identity) { w.Groups = []string{"group:acme:eng"} }},
		"another word for program":  {map[string]any{"azp": nil, "client_id": "robot"}, func(w *oidc.Identity) { w.Application = "robot" }},
		"no name":                   {map[string]any{"name": nil, "preferred_username": "ada"}, func(w *oidc.Identity) { w.Name = "ada" }},
		"a name that does not show": {map[string]any{"name": "A\u202eda\nB"}, func(w *oidc.Identity) { w.Name = "" }},
		"a subject with a colon":    {map[string]any{"sub": "x:ada b%"}, func(w *oidc.Identity) { w.Principal = "user:acme:x%3Aada%20b%25" }},
		"just expired":              {map[string]any{"exp": time.Now().Add(-2 * time.Second).Unix()}, func(*oidc.Identity) {}},
		"a clock that is ahead":     {map[string]any{"iat": time.Now().Add(40 * time.Second).Unix(), "nbf": time.Now().Add(40 * time.Second).Unix()}, func(*oidc.Identity) {}},
		"times with fractions":      {map[string]any{"exp": float64(time.Now().Unix()) + 60.5}, func(*oidc.Identity) {}},
		"no id":                     {map[string]any{"jti": nil}, func(w *oidc.Identity) { w.Credential = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			token := i.token("one", tc.more)
			first, err := p.Verify(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			want := want
			tc.change(&want)
			if want.Credential == "" && strings.HasPrefix(first.Credential, "jwt:") {
				want.Credential = first.Credential
			}
			if name == "a name that does not show" { // its form is that of sdk/plain
				if strings.ContainsAny(first.Name, "\n\u202e") {
					t.Errorf("Name = %q", first.Name)
				}
				want.Name = first.Name
			}
			again, err := p.Verify(t.Context(), token)
			if diff := cmp.Diff(want, first); diff != "" {
				t.Errorf("Verify (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(first, again); diff != "" || err != nil {
				t.Errorf("Verify of a token that is known (-want +got): %v\n%s", err, diff)
			}
		})
	}
	if n := i.asked(); n != 1 {
		t.Errorf("the provider was asked %d times, want once", n)
	}
}

func TestATokenThatDoesNotCountIsRefused(t *testing.T) {
	i := newIssuer(t, "RS256", "HS256", "none")
	other := newIssuer(t)
	p := i.provider(t, clock.System())
	good, foreign := i.token("one", nil), other.token("one", nil)
	part := base64.RawURLEncoding.EncodeToString
	payload := strings.Split(good, ".")[1]
	for name, tc := range map[string]struct{ token, want string }{
		"nothing":                   {"", "not a JSON web token"},
		"no token":                  {"abc", "not a JSON web token"},
		"three parts of nothing":    {"..", "not a JSON web token"},
		"encrypted":                 {good + ".a.b", "not a JSON web token"},
		"claims that are a list":    {"e30." + part([]byte("[]")) + ".x", "not a JSON web token"},
		"no algorithm":              {part([]byte(`{"alg":"none"}`)) + "." + payload + ".", "signed as the identity provider signs"},
		"a shared secret":           {part([]byte(`{"alg":"HS256","kid":"one"}`)) + "." + payload + "." + part(make([]byte, 32)), "signed as the identity provider signs"},
		"an algorithm it lacks":     {oidctest.SignIDToken(i.keys["one"], "one", "RS512", i.claims(nil)), "signed as the identity provider signs"},
		"a signature of another":    {good[:strings.LastIndexByte(good, '.')] + foreign[strings.LastIndexByte(foreign, '.'):], "its signature is wrong"},
		"another issuer":            {foreign, "another identity provider"},
		"another issuer's key":      {oidctest.SignIDToken(other.keys["one"], "one", "RS256", i.claims(nil)), "its signature is wrong"},
		"an issuer with a slash":    {i.token("one", map[string]any{"iss": i.url + "/"}), "another identity provider"},
		"no issuer":                 {i.token("one", map[string]any{"iss": nil}), "another identity provider"},
		"another audience":          {i.token("one", map[string]any{"aud": "https://other.example"}), "for another server"},
		"an audience with a slash":  {i.token("one", map[string]any{"aud": audience + "/"}), "for another server"},
		"an audience in capitals":   {i.token("one", map[string]any{"aud": strings.ToUpper(audience)}), "for another server"},
		"no audience":               {i.token("one", map[string]any{"aud": nil}), "for another server"},
		"an audience that is 1":     {i.token("one", map[string]any{"aud": 1}), ""},
		"expired":                   {i.token("one", map[string]any{"exp": time.Now().Add(-90 * time.Second).Unix()}), "it expired "},
		"without an end":            {i.token("one", map[string]any{"exp": nil}), "no claim exp"},
		"an end before all":         {i.token("one", map[string]any{"exp": -5}), "no claim exp"},
		"an end that is a text":     {i.token("one", map[string]any{"exp": "tomorrow"}), ""},
		"not yet":                   {i.token("one", map[string]any{"nbf": time.Now().Add(6 * time.Minute).Unix()}), "ahead of the clock of this server"},
		"issued in the future":      {i.token("one", map[string]any{"iat": time.Now().Add(6 * time.Minute).Unix()}), "ahead of the clock of this server"},
		"no subject":                {i.token("one", map[string]any{"sub": nil}), "claim sub"},
		"a long subject":            {i.token("one", map[string]any{"sub": strings.Repeat("a", 256)}), "claim sub"},
		"a subject that is 7":       {i.token("one", map[string]any{"sub": 7}), ""},
		"groups that are a text":    {i.token("one", map[string]any{"groups": "eng"}), "claim groups"},
		"a group without a name":    {i.token("one", map[string]any{"groups": []string{"/"}}), "a group that it names"},
		"too many groups":           {i.token("one", map[string]any{"groups": strings.Split(strings.Repeat("g ", 300), " ")}), "names 301 groups"},
		"for a client that logs in": {i.token("one", map[string]any{"at_hash": "x"}), "not an access token"},
		"of the kind ID":            {i.token("one", map[string]any{"typ": "ID"}), "not an access token"},
		"for a logout":              {i.token("one", map[string]any{"events": map[string]any{}}), "not an access token"},
		"claims in capitals":        {i.token("one", map[string]any{"sub": nil, "SUB": "ada"}), "claim sub"},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := p.Verify(t.Context(), tc.token)
			if fault.CodeOf(err) != fault.InvalidToken || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Verify = %+v, %v, want INVALID_TOKEN with %q", who, err, tc.want)
			}
		})
	}
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Errorf("the right one = %v", err)
	}
}

// A key is looked for once it is used, however it came; and whoever invents keys does not make
// this server ask again and again.
func TestANewKeyIsFetchedAndInventedOnesAreNot(t *testing.T) {
	i := newIssuer(t)
	p := i.provider(t, clock.System())
	old := i.token("one", nil)
	if _, err := p.Verify(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	i.publish("one", "two")
	var work sync.WaitGroup
	for n := range 20 {
		work.Go(func() {
			if _, err := p.Verify(t.Context(), i.token("two", map[string]any{"jti": fmt.Sprint(n)})); err != nil {
				t.Errorf("with the new key: %v", err)
			}
		})
	}
	work.Wait()
	i.publish("two")
	if _, err := p.Verify(t.Context(), i.token("one", map[string]any{"jti": "x"})); err != nil {
		t.Errorf("with the old key, of which nobody knows yet that it is withdrawn: %v", err)
	}
	for n := range 100 {
		token := oidctest.SignIDToken(i.keys["one"], fmt.Sprintf("invented-%d", n), "RS256", i.claims(nil))
		if _, err := p.Verify(t.Context(), token); fault.CodeOf(err) != fault.InvalidToken {
			t.Fatalf("with an invented key: %v", err)
		}
	}
	if _, err := p.Verify(t.Context(), i.token("one", map[string]any{"jti": "y"})); fault.CodeOf(err) != fault.InvalidToken {
		t.Errorf("with the withdrawn key: %v, want INVALID_TOKEN", err)
	}
	// The burst, and what a busy machine adds in its time.
	if n := i.asked(); n > 20 {
		t.Errorf("the provider was asked %d times, want a few", n)
	}
}

func TestAProviderThatIsDownEndsNothingThatIsKnown(t *testing.T) {
	i := newIssuer(t)
	p := i.provider(t, clock.System())
	i.set(true)
	p.Warm()
	known := i.token("one", nil)
	if _, err := p.Verify(t.Context(), known); fault.CodeOf(err) != fault.IdentityUnavailable {
		t.Errorf("with no keys: %v, want IDENTITY_UNAVAILABLE", err)
	}
	i.set(false)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := p.Verify(t.Context(), known)
		if err == nil {
			break
		}
		if fault.CodeOf(err) != fault.IdentityUnavailable || time.Now().After(end) {
			t.Fatalf("once it is back: %v", err)
		}
	}
	i.set(true)
	for _, jti := range []string{"1", "2"} { // one that was checked, and one that was not
		if _, err := p.Verify(t.Context(), i.token("one", map[string]any{"jti": jti})); err != nil {
			t.Errorf("with a known key: %v", err)
		}
	}
	i.publish("two")
	for range 10 {
		if _, err := p.Verify(t.Context(), i.token("two", nil)); fault.CodeOf(err) != fault.IdentityUnavailable && fault.CodeOf(err) != fault.InvalidToken {
			t.Errorf("with a key that cannot be fetched: %v, want a refusal", err)
		}
	}
}

func TestATokenThatIsKnownEnds(t *testing.T) {
	i := newIssuer(t)
	machine := clocktest.New(time.Now())
	p := i.provider(t, clock.New(machine))
	token := i.token("one", map[string]any{"exp": time.Now().Add(10 * time.Minute).Unix()})
	if _, err := p.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	machine.Pass(12 * time.Minute)
	if _, err := p.Verify(t.Context(), token); fault.CodeOf(err) != fault.InvalidToken {
		t.Errorf("Verify after its end: %v, want INVALID_TOKEN", err)
	}
}

func TestRealm(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://id.example/realms/acme": "acme", "https://id.example/auth/realms/acme/": "acme", "https://id.example": "id.example", "https://ID.example:8443/": "id.example",
		"https://login.microsoftonline.com/5f/v2.0": "login.microsoftonline.com", "https://id.example/realms/a/realms/b": "b", "http://localhost:8080/realms/acme": "acme",
		"http://127.0.0.1:9000": "127.0.0.1",
		"":                      "", "id.example": "", "http://id.example": "", "https://id.example/realms/a b": "", "https://id.example?x=1": "", "https://u:p@id.example": "",
		"https://id.example/realms/local": "", "https://id.example/realms/": "realms", "ftp://id.example": "", "https://[::1]:8443": "", "https://id.example/#a": "", "http://127.0.0.1.evil.example": "",
	} {
		got, err := oidc.Realm(issuer)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Realm(%q) = %q, %v, want %q", issuer, got, err, want)
		}
	}
}

func BenchmarkAKnownToken(b *testing.B) {
	i := newIssuer(b)
	p := i.provider(b, clock.System())
	token := i.token("one", nil)
	for b.Loop() {
		if _, err := p.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	i := newIssuer(f)
	p := i.provider(f, clock.System())
	good := i.token("one", nil)
	f.Add(good)
	f.Add("..")
	f.Add("e30.e30.e30")
	f.Add(strings.Replace(good, "e", "f", 1))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := p.Verify(t.Context(), token); err == nil && token != good {
			t.Errorf("Verify(%q) takes it", token)
		}
	})
}
