package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/e2e/forgery"
)

// attacked is a server at which the run of an agent waits for an approval by login. Bob may give it, and is
// logged in.
type attacked struct {
	*program
	t           *testing.T
	token, page string // of the agent
	form        string // that approves
	bob         browser
	cookie      string // of bob's browser
	usedLink    string
	again       func() answer
}

func underAttack(t *testing.T) *attacked {
	t.Helper()
	b := withShippedDrivers(t, "auth: {enabled: true}\nmcp: {wait: 100ms}\n")
	_, token := b.tokenOf("user:acme:ada", "--space", "group:acme:sre")
	document := strings.Replace(gatedCommand, `"approval_mode":"user"`, `"approval":{"how":["login"]}`, 1)
	page, _, again := b.gatedBy(token, "", document)
	bob := b.browser(t)
	link, _ := b.loginLink("--as", "user:acme:bob", "--group", "sre")
	bob.wants("POST", link, "", 200, "user:acme:bob")
	shown := bob.wants("GET", page, "", 200, "Ship it")
	at, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	s := &attacked{program: b, t: t, bob: bob, token: token, page: page, again: again, usedLink: link}
	s.form = "decision=approved&digest=" + shownDigest.FindStringSubmatch(shown)[1]
	for _, c := range bob.person.Jar.Cookies(at) {
		if c.Name == "kairos" {
			s.cookie = c.Value
		}
	}
	return s
}

// posts sends the form of the approval, and says whether the server took it.
func (s *attacked) posts(page string, headers map[string]string) (taken bool) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, page, strings.NewReader(s.form))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range headers {
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	res, err := s.client.Transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode < http.StatusBadRequest
}

// waits reports whether the run still waits for the person.
func (s *attacked) waits() bool { return strings.Contains(s.again().body, "WAITING_FOR_USER") }

// stranger is an account without rights on the machine of the server.
const stranger = 65534

// loginAttacks are those of e2e/forgery by their names. Each returns what it got on its way that it should not have.
var loginAttacks = map[string]func(s *attacked) (got []string){
	"read the files of the server":     (*attacked).readsFiles,
	"connect to the admin socket":      (*attacked).connects,
	"make a link elsewhere":            (*attacked).linksElsewhere,
	"guess links":                      (*attacked).guesses,
	"read the log":                     (*attacked).readsTheLog,
	"replay a login link":              (*attacked).replays,
	"post the form with a token":       (*attacked).postsWithAToken,
	"forge headers":                    (*attacked).forgesHeaders,
	"answer in the client's place":     (*attacked).answersAsClient,
	"send the person's browser a form": (*attacked).crossesSites,
	"rebind a name":                    (*attacked).rebinds,
	"toss a cookie":                    (*attacked).tossesCookies,
	"make a login link":                (*attacked).makesALink,
	"read the cookie at another port":  (*attacked).readsTheCookie,
}

// TestNoAgentGetsAnApprovalByLogin plays each attack of the list, and compares the outcome with the expected one.
func TestNoAgentGetsAnApprovalByLogin(t *testing.T) {
	long(t)
	t.Parallel()
	s := underAttack(t)
	played := map[string]bool{}
	for _, a := range forgery.Logins() {
		played[a.Name] = true
		attack := loginAttacks[a.Name]
		if attack == nil {
			t.Errorf("nothing plays %q", a.Name)
			continue
		}
		if a.Has == "a shell of another account" && os.Geteuid() != 0 {
			t.Logf("NOT TESTED: %s, because only root can become another account", a.Name)
			continue
		}
		if a.Expected == forgery.Wins { // the run continues after it
			s = underAttack(t)
		}
		got := attack(s)
		outcome := forgery.Fails
		if !s.waits() {
			outcome = forgery.Wins
		}
		t.Logf("%s: the attacker %s", a.Name, outcome)
		if outcome != a.Expected || outcome == forgery.Fails && len(got) > 0 {
			t.Errorf("%s: the attacker %s, want that it %s; on its way it got %q", a.Name, outcome, a.Expected, got)
		}
	}
	for name := range loginAttacks {
		if !played[name] {
			t.Errorf("%q is not in the list", name)
		}
	}
}

// asStranger runs a program under another account, which may pass through the folders of the test.
func (s *attacked) asStranger(name string, environment []string, args ...string) (out string, err error) {
	s.t.Helper()
	for at := s.dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { //nolint:gosec // what is in it has to protect itself
			s.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(s.t.Context(), name)
	cmd.Args = append([]string{filepath.Base(name)}, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), environment...), "/"
	if name == "/proc/self/exe" {
		cmd.Args[0] = "kairos"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func (s *attacked) readsFiles() (got []string) {
	token := socket.TokenFile(s.path("run/admin.sock"))
	for _, file := range []string{s.path("data/kairos.db"), s.path("data/kairos.db-wal"), s.path("kairos.yaml"), token, s.path("data"), s.path("run")} {
		if _, err := os.Stat(file); err != nil && !strings.HasSuffix(file, "-wal") {
			s.t.Errorf("the attack does not know where the server keeps things: %v", err)
		}
		if out, err := s.asStranger("/bin/ls", nil, file+"/."); err == nil {
			got = append(got, out)
		}
		if out, err := s.asStranger("/bin/cat", nil, file); err == nil {
			got = append(got, file+": "+out)
		}
	}
	return got
}

func (s *attacked) connects() (got []string) {
	for _, path := range []string{s.path("run/admin.sock"), s.path("own.sock")} {
		config := filepath.Join(s.t.TempDir(), "own.yaml")
		text := fmt.Sprintf("database: %s\nadmin: {socket: %s}\nauth: {enabled: true}\n", s.path("data/kairos.db"), path)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // of the attacker
			s.t.Fatal(err)
		}
		for at := filepath.Dir(config); at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o755); err != nil { //nolint:gosec // of the attacker
				s.t.Fatal(err)
			}
		}
		out, err := s.asStranger("/proc/self/exe", []string{"KAIROS_CONFIG=" + config}, "login-link", "--as", "user:acme:bob")
		if err == nil || strings.Contains(out, "/auth/link/") {
			got = append(got, out)
		}
	}
	return got
}

func (s *attacked) linksElsewhere() (got []string) {
	own := identifying(s.t)
	link, _ := own.loginLink("--as", "user:acme:bob", "--group", "sre")
	return s.opens(strings.Replace(link, own.url, s.url, 1))
}

// opens tries to log in by links, and to approve with what comes of it.
func (s *attacked) opens(links ...string) (got []string) {
	for _, link := range links {
		if status, page := s.browser(s.t).opens("POST", link, ""); status == http.StatusOK {
			got = append(got, link+": "+page)
		}
	}
	return got
}

func (s *attacked) guesses() (got []string) {
	secret := s.usedLink[strings.LastIndexByte(s.usedLink, '/')+1:]
	approval := s.page[strings.LastIndexByte(s.page, '/')+1:]
	for n := range 30 {
		guess := fmt.Sprintf("%d%s", n, secret[min(len(secret), len(fmt.Sprint(n))):])
		got = append(got, s.opens(s.url+"/auth/link/"+guess)...)
		if s.posts(s.page, map[string]string{"Cookie": "kairos=" + guess}) {
			got = append(got, "a login")
		}
		other := fmt.Sprintf("%x%s", n%16, approval[1:])
		if status, _ := s.browser(s.t).opens("GET", strings.Replace(s.page, approval, other, 1), ""); status == http.StatusOK {
			got = append(got, "a page of an approval")
		}
	}
	return got
}

func (s *attacked) readsTheLog() (got []string) {
	known := s.stderr.String() + s.again().body
	if found := regexp.MustCompile(`/auth/link/[A-Za-z0-9_-]{10,}`).FindString(known); found != "" {
		got = append(got, found)
	}
	for _, secret := range []string{s.cookie, s.usedLink[strings.LastIndexByte(s.usedLink, '/')+1:]} {
		if strings.Contains(known, secret) {
			got = append(got, secret)
		}
	}
	return got
}

func (s *attacked) replays() []string { return s.opens(s.usedLink, s.usedLink+"?x=y") }

func (s *attacked) postsWithAToken() (got []string) {
	for _, headers := range []map[string]string{
		with(s.token), {"Cookie": "kairos=" + s.token}, {"Cookie": "__Host-kairos=" + s.token}, {"Authorization": "Bearer " + s.token, "Cookie": "kairos="},
	} {
		if s.posts(s.page, headers) {
			got = append(got, fmt.Sprint(headers))
		}
	}
	return got
}

func (s *attacked) forgesHeaders() (got []string) {
	for name, value := range map[string]string{
		"Host": "localhost", "Origin": s.url, "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost", "Forwarded": "for=127.0.0.1;proto=https",
		"Kairos-Passed-On": "x 127.0.0.1 1 AAAA", "X-Forwarded-User": "bob", "Remote-User": "bob", "X-Auth-Request-User": "user:acme:bob", "X-Forwarded-Email": "bob@acme.example",
	} {
		for _, headers := range []map[string]string{{name: value}, with(s.token, name, value)} {
			if s.posts(s.page, headers) {
				got = append(got, fmt.Sprint(headers))
			}
		}
	}
	return got
}

func (s *attacked) answersAsClient() (got []string) {
	asks := strings.Replace(handshake, `"capabilities":{}`, `"capabilities":{"elicitation":{"form":{},"url":{}}}`, 1)
	session := s.do("POST", "/mcp", asks, with(s.token)).header.Get("Mcp-Session-Id")
	next := s.again().body
	call := regexp.MustCompile(`"uri": ?"([^"]+)"`).FindStringSubmatch(next)
	nonce := regexp.MustCompile(`"nonce": ?"([^"]+)"`).FindStringSubmatch(next)
	hash := regexp.MustCompile(`"challenge":.*"proof_hash": ?"([^"]+)"`).FindStringSubmatch(next)
	if call == nil || nonce == nil || hash == nil {
		s.t.Fatalf("the agent is told %s", next)
	}
	for _, more := range []string{
		`"shell":{"exit_code":0}`, `"user_input":{"confirmation":"approved"}`, `"shell":{"exit_code":0},"approval":"approved"`, `"approval":{"decision":"approved","by":"user:acme:bob"}`,
	} {
		arguments := fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q,%s}}`, call[1], nonce[1], hash[1], more)
		a := s.do("POST", "/mcp", rpcCall(7, "kairos_next", arguments, ""), with(s.token, "Mcp-Session-Id", session))
		if strings.Contains(a.body, `"method":"elicitation/create"`) && strings.Contains(a.body, `"mode":"form"`) {
			got = append(got, "a form: "+a.body)
		}
	}
	return got
}

func (s *attacked) crossesSites() (got []string) {
	for _, headers := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
		{"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": "http://localhost:1"},
	} {
		headers["Cookie"] = "kairos=" + s.cookie
		if s.posts(s.page, headers) {
			got = append(got, fmt.Sprint(headers))
		}
	}
	return got
}

func (s *attacked) rebinds() (got []string) {
	port := s.url[strings.LastIndexByte(s.url, ':'):]
	for _, host := range []string{"evil.example" + port, "localhost.evil.example" + port, "127.0.0.1.evil.example" + port, "evil.example"} {
		if s.posts(s.page, map[string]string{"Host": host, "Origin": "http://" + host, "Sec-Fetch-Site": "same-origin", "Cookie": "kairos=" + s.cookie}) {
			got = append(got, host)
		}
	}
	return got
}

func (s *attacked) tossesCookies() (got []string) {
	for _, cookie := range []string{"kairos=x; kairos=" + s.cookie, "kairos=" + s.cookie + "; kairos=x", "kairos=x", "kairos=" + s.cookie + "x", "__Host-kairos=" + s.cookie} {
		if s.posts(s.page, map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}) {
			got = append(got, cookie)
		}
	}
	return got
}

// makesALink is what the account of the server can do.
func (s *attacked) makesALink() []string {
	link, _ := s.loginLink("--as", "user:acme:bob", "--group", "sre")
	p := s.browser(s.t)
	p.opens("POST", link, "")
	s.insists(func() { p.opens("POST", s.page, s.form) })
	return []string{link}
}

// insists repeats what approves, because a form that comes at once counts for nobody.
func (s *attacked) insists(approve func()) {
	for deadline := time.Now().Add(time.Minute); s.waits() && time.Now().Before(deadline); {
		approve()
	}
}

// readsTheCookie has the person open a page of another program on the machine.
func (s *attacked) readsTheCookie() (got []string) {
	var sent atomic.Pointer[http.Request]
	page := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent.Store(r) }))
	defer page.Close()
	s.bob.opens("GET", page.URL+"/report", "")
	for _, cookie := range sent.Load().CookiesNamed("kairos") {
		got = append(got, cookie.Value)
		s.insists(func() { s.posts(s.page, map[string]string{"Cookie": "kairos=" + cookie.Value}) })
	}
	return got
}
