package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// browser is a person with a browser of their own.
type browser struct {
	*program
	person *http.Client
}

func (b *program) browser(t *testing.T) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{b, &http.Client{Jar: jar}}
}

// opens requests a page as the person does, and follows where it leads.
func (p browser) opens(method, at, form string) (status int, page string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, at, strings.NewReader(form))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := p.person.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, page, _ = strings.Cut(string(body), "<main>")
	return res.StatusCode, page
}

func (p browser) wants(method, at, form string, status int, says string) string {
	p.t.Helper()
	got, page := p.opens(method, at, form)
	if got != status || !strings.Contains(page, says) {
		p.t.Errorf("%s %s = %d %s, want %d and %q", method, at, got, page, status, says)
	}
	return page
}

// loginLink makes a link for a person and returns it with the id of the login.
func (b *program) loginLink(flags ...string) (link, id string) {
	b.t.Helper()
	out := b.command("", append([]string{"login-link", "-o", "json"}, flags...)...)
	var made struct{ URL, ID string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.URL == "" {
		b.t.Fatalf("login-link = %s, %v", out, err)
	}
	return made.URL, made.ID
}

// gatedBy plays a run with a token up to its approval, and returns the link of it.
func (b *program) gatedBy(token, space, document string) (link, id string, again func() answer) {
	b.t.Helper()
	call := func(path, body string) (a answer, r struct {
		RunID       string `json:"run_id"`
		ApprovalURL string `json:"approval_url"`
		Items       []struct{ URI string }
		Challenge   struct {
			Nonce string
			Hash  string `json:"proof_hash"`
		}
	},
	) {
		kind := "application/json"
		if strings.Contains(path, "/raw") {
			kind = "text/markdown"
		}
		a = b.do("POST", path, body, with(token, "Content-Type", kind))
		if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.status != http.StatusOK {
			b.t.Fatalf("%s = %d %s, %v", path, a.status, a.body, err)
		}
		return a, r
	}
	_, minted := call("/api/kairos_mint/raw?llm_model_id=test&space="+url.QueryEscape(space), document)
	uri := minted.Items[0].URI
	_, begun := call("/api/kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri))
	placeholder := fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q}}`, uri, begun.Challenge.Nonce, begun.Challenge.Hash)
	_, waits := call("/api/kairos_next", placeholder)
	if waits.ApprovalURL == "" {
		b.t.Fatal("the run does not wait for an approval")
	}
	return waits.ApprovalURL, begun.RunID, func() answer { a, _ := call("/api/kairos_next", placeholder); return a }
}

const gatedCommand = "# Ship\n\n## Ship it\n\nShip it.\n\n```json\n" +
	`{"challenge":{"type":"shell","approval_mode":"user","shell":{"cmd":"echo shipped","timeout_seconds":5}}}` + "\n```\n"

func TestAPersonLogsInByALinkAndApproves(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	_, ada := b.tokenOf("user:acme:ada", "--space", "group:acme:sre")
	page, id, again := b.gatedBy(ada, "", gatedCommand)
	bob, eve := b.browser(t), b.browser(t)
	if shown := bob.wants("GET", page, "", 401, "This page needs a login"); strings.Contains(shown, "Ship it") {
		t.Errorf("the page shows the run to nobody: %s", shown)
	}
	link, login := b.loginLink("--as", "user:acme:bob", "--name", "Bob", "--group", "sre")
	bob.wants("GET", link, "", 200, "Log in as Bob?")
	began := time.Now()
	shown := bob.wants("POST", link, "", 200, "Logged in as <b>Bob</b>") // and leads back to the approval
	t.Logf("from the button to the page of the approval: %s", time.Since(began))
	if !strings.Contains(shown, "Ship it") || !strings.Contains(shown, "user:acme:ada") {
		t.Errorf("after the login: %s, want the approval of ada's run", shown)
	}
	eve.wants("POST", link, "", 404, "This link does not log in")
	other, _ := b.loginLink("--as", "eve")
	eve.wants("POST", other, "", 200, "user:local:eve")
	eve.wants("GET", page, "", 404, "No such approval") // not in a space of eve

	bob.approves(page, shown, "user:acme:bob")
	if a := again(); strings.Contains(a.body, "WAITING_FOR_USER") {
		t.Errorf("after the approval the agent is told %s", a.body)
	}
	b.recordsTheLogin(ada, id)

	if out := b.command("", "logins", "list"); !strings.Contains(out, "user:acme:bob") || !strings.Contains(out, "user:local:eve") {
		t.Errorf("logins list: %s", out)
	}
	if out := b.command("", "logins", "revoke", login); !strings.Contains(out, "ended login") {
		t.Errorf("logins revoke: %s", out)
	}
	bob.wants("GET", page, "", 401, "This page needs a login")
	for _, secret := range []string{link, other} {
		b.seesNoSecret(secret[strings.LastIndexByte(secret, '/')+1:])
	}
}

// approves presses the button of the page, until that counts: a person takes longer than a
// program.
func (p browser) approves(page, shown, principal string) {
	p.t.Helper()
	form := "decision=approved&digest=" + regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`).FindStringSubmatch(shown)[1]
	deadline := time.Now().Add(time.Minute)
	for now := ""; !strings.Contains(now, "by "+principal); time.Sleep(10 * time.Millisecond) { // polling with a deadline
		if time.Now().After(deadline) {
			p.t.Fatalf("the approval does not count: %s", now)
		}
		p.opens("POST", page, form)
		_, now = p.opens("GET", page, "")
	}
}

// recordsTheLogin checks that the record of a run names the person, and how.
func (b *program) recordsTheLogin(token, id string) {
	b.t.Helper()
	line := b.command(token, "runs", "show", id, "--url", b.url, "-o", "json")
	for _, says := range []string{"on the approval page, by user:acme:bob", `"basis": "page"`} {
		if !strings.Contains(line, says) {
			b.t.Errorf("runs show -o json: %s, want %q", line, says)
		}
	}
	if out := b.command(token, "runs", "show", id, "--url", b.url); !strings.Contains(out, "a person (login)") {
		b.t.Errorf("runs show: %s, want a person (login)", out)
	}
}

// atTheProvider opens a page that leads to the provider, and logs in there.
func (p browser) atTheProvider(page, name, password string) (shown string, took time.Duration) {
	p.t.Helper()
	p.wants("GET", page, "", 401, "../../auth/login")
	began := time.Now()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/auth/login", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.person.Do(req) // as far as the form of the provider
	if err != nil {
		p.t.Fatal(err)
	}
	_ = res.Body.Close()
	form := url.Values{"id": {res.Request.URL.Query().Get("id")}, "username": {name}, "password": {password}}
	_, shown = p.opens("POST", res.Request.URL.Scheme+"://"+res.Request.URL.Host+res.Request.URL.Path, form.Encode())
	return shown, time.Since(began)
}

func TestAPersonLogsInAtTheIdentityProviderAndApproves(t *testing.T) {
	long(t)
	t.Parallel()
	p := programs.StartProvider(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("kairos-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := withShippedDrivers(t, fmt.Sprintf("oidc: {issuer: %q, audience: %q, client_id: kairos, client_secret_file: %q}\n", p.Issuer, ourAudience, secret))
	ada := p.Token(ours("sub", "ada", "groups", []string{"eng", "sre"}), "")
	page, id, again := b.gatedBy(ada, "group:acme:eng", gatedCommand)

	carol := b.browser(t)
	if shown, _ := carol.atTheProvider(page, "carol", "password"); !strings.Contains(shown, "No such approval") {
		t.Errorf("somebody of another group sees %s", shown)
	}
	if shown, _ := b.browser(t).atTheProvider(page, "bob", "wrong"); strings.Contains(shown, "Ship it") {
		t.Errorf("with a wrong password: %s", shown)
	}
	bob := b.browser(t)
	shown, took := bob.atTheProvider(page, "bob", "password")
	t.Logf("from the button to the page of the approval, with the provider's form: %s", took)
	if !strings.Contains(shown, "Logged in as <b>Bob Kahn</b>") || !strings.Contains(shown, "Ship it") {
		t.Fatalf("after the login: %s, want the approval", shown)
	}
	bob.approves(page, shown, "user:acme:bob")
	if a := again(); strings.Contains(a.body, "WAITING_FOR_USER") {
		t.Errorf("after the approval the agent is told %s", a.body)
	}
	b.recordsTheLogin(ada, id)
	if out := b.command("", "login-link", "--as", "user:acme:bob"); !strings.Contains(out, "who logs in there") {
		t.Errorf("a link for a person of the provider: %s", out)
	}
	b.seesNoSecret("kairos-secret")
	p.Do("down?down=true")
	if _, page := carol.opens("GET", b.url+"/auth/login", ""); !strings.Contains(page, "user:acme:carol") {
		t.Errorf("while the provider is down somebody who is logged in sees %s", page)
	}
}

func TestALoginLinkIsForANamedPerson(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	for says, args := range map[string][]string{
		"nobody logs in as it": {"--as", "operator"}, "cannot log in": {"--as", "two words"}, "in one line": {"--as", "ada", "--name", "a\r\nSet-Cookie: x=y"},
		"1 to 80 bytes": {"--as", "ada", "--name", strings.Repeat("x", 64<<10)}, "is not a group": {"--as", "ada", "--group", "a\nb"},
	} {
		if out := b.command("", append([]string{"login-link"}, args...)...); !strings.Contains(out, says) || strings.Contains(out, "/auth/link/") {
			t.Errorf("login-link %.60q: %.400s, want %q", args, out, says)
		}
	}
	if out := b.command("", "logins", "revoke", "nothing"); !strings.Contains(out, "there is no login") {
		t.Errorf("logins revoke: %s", out)
	}
	if out := b.command("", "login-link", "--as", "ada"); !strings.Contains(out, b.url+"/auth/link/") || !strings.Contains(out, "It logs in once") {
		t.Errorf("login-link: %s", out)
	}
}

func TestWithoutIdentityNobodyLogsIn(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "")
	if out := b.command("", "login-link", "--as", "ada"); !strings.Contains(out, "nobody has to log in to this server") {
		t.Errorf("login-link: %s", out)
	}
	if a := b.do("GET", "/auth/login", "", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("/auth/login = %d %s, want 503", a.status, a.body)
	}
}
