package programs_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// TestTheProviderLogsPeopleInAndNamesTheAudience: code with PKCE, as clients of MCP do.
func TestTheProviderLogsPeopleInAndNamesTheAudience(t *testing.T) {
	p := programs.StartProvider(t)
	client := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), p.Issuer+"/authorize") {
			return nil
		}
		return http.ErrUseLastResponse
	}}
	post := func(path string, form url.Values) (status int, location, body string) {
		t.Helper()
		res, err := client.PostForm(p.Issuer+path, form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("Location"), string(text)
	}
	query := url.Values{
		"client_id": {"agent"}, "response_type": {"code"}, "scope": {"openid offline_access"}, "redirect_uri": {"http://127.0.0.1:1/callback"}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, "resource": {"https://kairos.example"},
	}
	_, form, _ := post("/authorize", query)
	_, id, ok := strings.Cut(form, p.Issuer+"/login?id=")
	if !ok {
		t.Fatalf("the login is at %q", form)
	}
	if status, _, _ := post("/login", url.Values{"id": {id}, "username": {"ada"}, "password": {"wrong"}}); status != http.StatusUnauthorized {
		t.Errorf("a wrong password = %d, want 401", status)
	}
	_, to, _ := post("/login", url.Values{"id": {id}, "username": {"ada"}, "password": {"password"}})
	back, err := url.Parse(to)
	if err != nil || back.Query().Get("code") == "" || back.Query().Get("state") != "s" {
		t.Fatalf("the login leads to %v, %v", back, err)
	}
	exchange := func(form url.Values) map[string]any {
		t.Helper()
		status, _, body := post("/oauth/token", form)
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Fatalf("token = %d %s, %v", status, body, err)
		}
		return got
	}
	grant := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"agent"}, "code": {back.Query().Get("code")},
		"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}, "redirect_uri": query["redirect_uri"],
	}
	got := exchange(grant)
	for range 2 {
		claims := claimsOf(t, got["access_token"])
		if aud, _ := json.Marshal(claims["aud"]); string(aud) != `["https://kairos.example"]` || claims["sub"] != "ada" || claims["azp"] != "agent" {
			t.Errorf("the access token says %v, want it for the resource", claims)
		}
		if aud, _ := json.Marshal(claimsOf(t, got["id_token"])["aud"]); string(aud) != `["agent"]` {
			t.Errorf("the id token is for %s, want the client", aud)
		}
		got = exchange(url.Values{"grant_type": {"refresh_token"}, "client_id": {"agent"}, "refresh_token": {got["refresh_token"].(string)}})
	}
}

func claimsOf(t *testing.T, token any) map[string]any {
	t.Helper()
	text, _ := token.(string)
	parts := strings.Split(text, ".")
	var claims map[string]any
	if len(parts) != 3 {
		t.Fatalf("%q is not a token", text)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims
}
