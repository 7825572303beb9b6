package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

const ourAudience = "https://kairos.example"

// withProvider starts a server that takes the tokens of a provider. It believes every request
// which address it comes from, because wrong tokens of one address are limited.
func withProvider(t *testing.T) (*program, *programs.Provider) {
	t.Helper()
	p := programs.StartProvider(t)
	return withShippedDrivers(t, "oidc: {issuer: '"+p.Issuer+"', audience: '"+ourAudience+"'}\nhttp: {trusted_proxies: [127.0.0.1/32]}\n"), p
}

// ours are the claims of a token for this server, with more.
func ours(more ...any) map[string]any {
	all := map[string]any{"aud": ourAudience}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

// door is a way to call the server. Its status is that of a caller who may.
type door struct {
	name, method, path, body string
	headers                  []string
	session                  bool // in an MCP session of ada's program
	open                     bool // everybody may
	status                   int
}

func doors() []door {
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}
	return []door{
		{name: "an MCP call", method: "POST", path: "/mcp", body: listModern, headers: modern, status: 200},
		{name: "the same, with a slash", method: "POST", path: "/mcp/", body: listModern, headers: modern, status: 200},
		{name: "a new MCP session", method: "POST", path: "/mcp", body: handshake, status: 200},
		{name: "a call in a session", method: "POST", path: "/mcp", body: listOld, session: true, status: 200},
		{name: "the stream of a session", method: "GET", path: "/mcp", session: true, status: 200},
		{name: "the end of a session", method: "DELETE", path: "/mcp", session: true, status: 200},
		{name: "a call of REST", method: "POST", path: "/api/kairos_spaces", body: `{}`, status: 200},
		{name: "a call of operators", method: "POST", path: "/api/runs_list", body: `{}`, status: 200},
		{name: "the metadata", method: "GET", path: "/.well-known/oauth-protected-resource", open: true, status: 200},
		{name: "the metadata of MCP", method: "GET", path: "/.well-known/oauth-protected-resource/mcp", open: true, status: 200},
		{name: "health", method: "GET", path: "/healthz", open: true, status: 200},
	}
}

// credential is what a caller shows, and what the server says to it: 401 with a code, or 404
// in a session that is not its own; empty: it may.
type credential struct{ name, header, refused, session string }

// in returns a request's headers with a credential, from an address of its own.
func (c credential) in(d door, session string, n int) map[string]string {
	headers := map[string]string{"X-Forwarded-For": fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}
	for i := 0; i+1 < len(d.headers); i += 2 {
		headers[d.headers[i]] = d.headers[i+1]
	}
	if c.header != "" {
		headers["Authorization"] = c.header
	}
	if d.session {
		headers["Mcp-Session-Id"] = session
	}
	return headers
}

// TestEveryCredentialAtEveryDoor compares each reply with the one that the table demands.
func TestEveryCredentialAtEveryDoor(t *testing.T) {
	t.Parallel()
	b, p := withProvider(t)
	now := time.Now()
	id, revoked := b.tokenOf("user:acme:ada")
	_, access := b.tokenOf("user:acme:ada")
	b.command("", "token", "revoke", id)
	bearer := func(claims map[string]any, how string) string { return "Bearer " + p.Token(claims, how) }
	valid := bearer(ours(), "")
	const invalid, unknown = "invalid_token", "Unauthorized"
	credentials := []credential{
		{"nothing", "", unknown, ""},
		{"another scheme", "Basic YWRhOnBhc3N3b3Jk", unknown, ""},
		{"garbage", "Bearer garbage", invalid, ""},
		{"garbage of three parts", "Bearer e30.e30.e30", invalid, ""},
		{"a token that has expired", bearer(ours("exp", now.Add(-5*time.Minute).Unix()), ""), invalid, ""},
		{"a token that is not valid yet", bearer(ours("nbf", now.Add(10*time.Minute).Unix()), ""), invalid, ""},
		{"a token of a clock that is 5 minutes ahead", bearer(ours("iat", now.Add(5*time.Minute+30*time.Second).Unix()), ""), invalid, ""},
		{"a token of a foreign issuer", bearer(ours("iss", "https://evil.example"), ""), invalid, ""},
		{"a token that a foreign key has signed", bearer(ours(), "key=foreign"), invalid, ""},
		{"a token for another audience", bearer(map[string]any{"aud": "https://other.example"}, ""), invalid, ""},
		{"a token for the audience with a slash", bearer(map[string]any{"aud": ourAudience + "/"}, ""), invalid, ""},
		{"a token for no audience", bearer(map[string]any{}, ""), invalid, ""},
		{"a token with `alg: none`", bearer(ours(), "alg=none"), invalid, ""},
		{"a token signed with HS256 and the public key", bearer(ours(), "alg=HS256"), invalid, ""},
		{"a token that says who has logged in", bearer(ours("at_hash", "x"), ""), invalid, ""},
		{"a token without a subject", bearer(ours("sub", nil), ""), invalid, ""},
		{"a revoked token of `kairos token create`", "Bearer " + revoked, invalid, ""},
		{"a forged token of that form", "Bearer " + forgedToken, invalid, ""},
		{"a token of another person", bearer(ours("sub", "bob"), ""), "", "404"},
		{"a token of another program of ada", bearer(ours("azp", "other"), ""), "", "404"},
		{"a token of `kairos token create` of ada", "Bearer " + access, "", "404"},
		{"the next token of the program", bearer(ours(), ""), "", ""},
		{"the token that opened the session", valid, "", ""},
	}
	until(t, "the token is revoked", func() bool {
		return b.do("POST", "/api/kairos_spaces", `{}`, with(revoked)).status == http.StatusUnauthorized
	})
	n, unexpected := 0, 0
	var table strings.Builder
	for _, c := range credentials {
		fmt.Fprintf(&table, "| %s |", c.name)
		for _, d := range doors() {
			session := b.do("POST", "/mcp", handshake, map[string]string{"Authorization": valid}).header.Get("Mcp-Session-Id")
			n++
			headers := c.in(d, session, n)
			res := b.request(d.method, d.path, d.body, headers)
			want := d.status
			switch {
			case d.open:
			case c.refused != "":
				want = http.StatusUnauthorized
			case d.session && c.session != "":
				want = http.StatusNotFound
			}
			if res.status != want || want == http.StatusUnauthorized && (!strings.Contains(res.body, `"error":"`+c.refused+`"`) || !strings.Contains(res.header.Get("WWW-Authenticate"), `resource_metadata="`)) {
				unexpected++
				t.Errorf("%s with %s = %d %s %s, want %d", d.name, c.name, res.status, res.header.Get("WWW-Authenticate"), res.body, want)
			}
			fmt.Fprintf(&table, " %d |", res.status)
		}
		table.WriteByte('\n')
	}
	t.Logf("%d credentials × %d doors: %d unexpected", len(credentials), len(doors()), unexpected)
	credentialPage(t, table.String())
	for _, c := range credentials {
		if _, token, ok := strings.Cut(c.header, " "); ok && len(token) > 20 {
			b.seesNoSecret(token)
		}
	}
}

// credentialPage compares the replies with the page of the manual that has them.
func credentialPage(t *testing.T, table string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Credentials\n\nLook up what a server with [an identity provider](../how-to/log-in-agents.md) replies to whom. Each cell is the status of a request to the real\n" +
		"program, with a provider that is a program of its own. The page is generated: `go test ./cmd/kairos -run EveryCredential -update`.\n\n" +
		"401 comes with `WWW-Authenticate: Bearer`, and says `invalid_token` unless no token came. A session of MCP is one of ada's, which one program of hers has opened:\n" +
		"to everybody else it is 404, as if it did not exist. The metadata and the probes are open.\n\n| the request shows |")
	rule := "\n|---|"
	for _, d := range doors() {
		fmt.Fprintf(&b, " %s: `%s %s` |", d.name, d.method, d.path)
		rule += "---|"
	}
	b.WriteString(rule + "\n" + table)
	const path = "../../docs/reference/credentials.md"
	if *updateRuns {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if diff := cmp.Diff(string(page), b.String()); err != nil || diff != "" {
		t.Errorf("docs/reference/credentials.md is not what the server does; go test ./cmd/kairos -run EveryCredential -update writes it: %v\n%s", err, diff)
	}
}

// request is do that reads no stream to its end.
func (b *program) request(method, path, body string, headers map[string]string) answer {
	b.t.Helper()
	if method != http.MethodGet || headers["Mcp-Session-Id"] == "" {
		return b.do(method, path, body, headers)
	}
	res := b.stream(method, body, headers)
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return answer{res.StatusCode, res.Header, ""}
	}
	return b.do(method, path, body, headers)
}

func TestPeopleOfAProviderWorkInTheirOwnSpaceAndTheirGroups(t *testing.T) {
	t.Parallel()
	b, p := withProvider(t)
	a := b.do("GET", "/.well-known/oauth-protected-resource/mcp", "", nil)
	for _, part := range []string{`"resource":"` + ourAudience + `"`, `"authorization_servers":["` + p.Issuer + `"]`} {
		if !strings.Contains(strings.ReplaceAll(a.body, ": ", ":"), part) {
			t.Errorf("the metadata = %s, want %s in it", a.body, part)
		}
	}
	token := map[string]string{}
	for _, who := range []string{"ada", "bob", "carol", "dan", "robot"} {
		token[who] = p.Token(ours("sub", who), "")
	}
	mint := func(who, space, document string) answer {
		return b.do("POST", "/api/kairos_mint/raw?llm_model_id=test&space="+space, document, with(token[who], "Content-Type", "text/markdown"))
	}
	for space, document := range map[string]string{"": oneCommand, "group:acme:eng": strings.Replace(oneCommand, "# One", "# Shared", 1)} {
		if a := mint("ada", space, document); a.status != http.StatusOK {
			t.Errorf("mint into %q = %d %s", space, a.status, a.body)
		}
	}
	if a := mint("carol", "group:acme:eng", oneCommand); a.status/100 == 2 {
		t.Errorf("somebody who is not in the group minted into its space: %s", a.body)
	}
	for who, sees := range map[string][2]bool{"ada": {true, true}, "bob": {false, true}, "carol": {}, "dan": {}, "robot": {}} {
		a := b.do("POST", "/api/kairos_spaces", everySpaces, with(token[who]))
		if got := [2]bool{strings.Contains(a.body, `"One"`), strings.Contains(a.body, `"Shared"`)}; got != sees {
			t.Errorf("%s sees ada's own protocol and that of eng: %v, want %v\n%s", who, got, sees, a.body)
		}
	}
	if out := b.command(token["ada"], "spaces", "list", "--url", b.url); !strings.Contains(out, "user:acme:ada") || !strings.Contains(out, "group:acme:sre") {
		t.Errorf("spaces list with a token of the provider: %s", out)
	}
	if log := b.stderr.String(); !strings.Contains(log, "principal=user:acme:ada") || !strings.Contains(log, "credential=jwt:") {
		t.Errorf("the log does not say who called: %s", log)
	}
}

// TestAProvidersKeysAndOutages: what is known counts on, and the rest is refused as what it is.
func TestAProvidersKeysAndOutages(t *testing.T) {
	t.Parallel()
	b, p := withProvider(t)
	status := func(token string) int { return b.do("POST", "/api/kairos_spaces", `{}`, with(token)).status }
	old := p.Token(ours(), "")
	if got := status(old); got != http.StatusOK {
		t.Fatalf("a token = %d", got)
	}
	p.Do("rotate?keep=false")
	rotated := p.Token(ours(), "")
	if got := []int{status(rotated), status(old)}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("after the keys changed the new token and the known one = %v, want 200 for both", got)
	}
	p.Do("down?down=true")
	if got := []int{status(rotated), status(p.Token(ours(), ""))}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("while the provider is down a known token and a new one with a known key = %v, want 200 for both", got)
	}
	p.Do("rotate?keep=true")
	unknown := p.Token(ours(), "")
	a := b.do("POST", "/mcp", listModern, with(unknown, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"))
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "IDENTITY_UNAVAILABLE") || a.header.Get("Retry-After") == "" {
		t.Errorf("with a key that cannot be fetched = %d %v %s, want 503 that says when to try again", a.status, a.header, a.body)
	}
	p.Do("down?down=false")
	until(t, "the token counts", func() bool { return status(unknown) == http.StatusOK })
}

func TestAServerStartsWithoutItsProvider(t *testing.T) {
	t.Parallel()
	p := programs.StartProvider(t)
	token := p.Token(ours(), "")
	p.Do("down?down=true")
	b := withShippedDrivers(t, "oidc: {issuer: '"+p.Issuer+"', audience: '"+ourAudience+"'}\n")
	b.logs("the identity provider could not be asked", 1)
	if a := b.do("POST", "/api/kairos_spaces", `{}`, with(token)); a.status != http.StatusServiceUnavailable {
		t.Errorf("a token that cannot be checked = %d %s, want 503", a.status, a.body)
	}
	if a := b.do("POST", "/api/kairos_spaces", `{}`, with("garbage")); a.status != http.StatusUnauthorized {
		t.Errorf("garbage = %d %s, want 401", a.status, a.body)
	}
	_, access := b.tokenOf("user:acme:ada")
	if a := b.do("POST", "/api/kairos_spaces", `{}`, with(access)); a.status != http.StatusOK {
		t.Errorf("a token of the server = %d %s, want 200", a.status, a.body)
	}
	p.Do("down?down=false")
	until(t, "the token counts", func() bool {
		return b.do("POST", "/api/kairos_spaces", `{}`, with(token)).status == http.StatusOK
	})
}
