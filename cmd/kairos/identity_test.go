package main

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tokenOf makes a token and returns its id and its secret.
func (s *served) tokenOf(owner string, flags ...string) (id, secret string) {
	s.t.Helper()
	out, err := s.program(append([]string{"token", "create", "-o", "json", "--name", "test", "--owner", owner}, flags...)...).Output()
	if err != nil {
		s.t.Fatalf("token create: %v", err)
	}
	var made struct {
		Token  struct{ ID string }
		Secret string
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Secret == "" {
		s.t.Fatalf("token create = %s, %v", out, err)
	}
	return made.Token.ID, made.Secret
}

// command runs a command and returns what it prints, on both streams.
func (s *served) command(token string, args ...string) string {
	s.t.Helper()
	cmd := s.program(args...)
	cmd.Env = append(cmd.Env, "KAIROS_BEARER_TOKEN="+token)
	out, _ := cmd.CombinedOutput() // the callers look at the text
	return string(out)
}

// identifying is a server whose callers have to say who they are.
func identifying(t *testing.T) *program {
	t.Helper()
	return withShippedDrivers(t, "auth: {enabled: true}\n")
}

func with(token string, more ...string) map[string]string {
	headers := map[string]string{"Authorization": "Bearer " + token}
	for i := 0; i+1 < len(more); i += 2 {
		headers[more[i]] = more[i+1]
	}
	return headers
}

const (
	handshake   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	listModern  = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	listOld     = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	everySpaces = `{"include_chain_titles":true}`
)

func TestAServerWithIdentityTakesTokensAlone(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	if out := b.command("", "spaces", "create", "production"); !strings.Contains(out, "created space") {
		t.Fatalf("spaces create: %s", out)
	}
	_, ada := b.tokenOf("user:acme:ada", "--space", "personal", "--space", "production")
	_, bob := b.tokenOf("user:acme:bob")
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}
	for name, tc := range map[string]struct {
		path, body string
		more       []string
	}{
		"REST": {"/api/kairos_spaces", `{}`, nil}, "the call of operators": {"/api/runs_list", `{}`, nil},
		"MCP with sessions": {"/mcp", handshake, nil}, "MCP without": {"/mcp", listModern, modern},
	} {
		headers := with(ada, tc.more...)
		if a := b.do("POST", tc.path, tc.body, headers); a.status != http.StatusOK {
			t.Errorf("%s with a token = %d %s, want 200", name, a.status, a.body)
		}
		headers["Authorization"] = "Bearer " + ada[:len(ada)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(ada, "0")]
		if a := b.do("POST", tc.path, tc.body, headers); a.status != http.StatusUnauthorized || !strings.Contains(a.body, `"error":"invalid_token"`) {
			t.Errorf("%s with a typing error in the token = %d %s, want 401 invalid_token", name, a.status, a.body)
		}
		delete(headers, "Authorization")
		a := b.do("POST", tc.path, tc.body, headers)
		if a.status != http.StatusUnauthorized || !strings.Contains(a.body, `"error":"Unauthorized"`) || !strings.Contains(a.header.Get("WWW-Authenticate"), "resource_metadata=") {
			t.Errorf("%s without a token = %d %v %s, want 401 that says how to get in", name, a.status, a.header, a.body)
		}
	}
	mint := func(token, space, document string) answer {
		return b.do("POST", "/api/kairos_mint/raw?llm_model_id=test&space="+space, document, with(token, "Content-Type", "text/markdown"))
	}
	for space, document := range map[string]string{"": oneCommand, "production": strings.Replace(oneCommand, "# One", "# Shared", 1)} {
		if a := mint(ada, space, document); a.status != http.StatusOK {
			t.Errorf("mint into %q = %d %s", space, a.status, a.body)
		}
	}
	if a := mint(bob, "production", oneCommand); a.status/100 == 2 {
		t.Errorf("a token without the space minted into it: %s", a.body)
	}
	_, reads := b.tokenOf("user:acme:cy", "--space", "production", "--may", "read")
	found := b.do("POST", "/api/kairos_search", `{"query":"shared"}`, with(reads))
	if found.status != http.StatusOK || !strings.Contains(found.body, `"sure"`) {
		t.Errorf("a search with a token that only reads = %d %s", found.status, found.body)
	}
	var begin struct {
		NextCall struct{ Arguments json.RawMessage } `json:"next_call"`
	}
	if err := json.Unmarshal([]byte(found.body), &begin); err != nil {
		t.Fatal(err)
	}
	for needs, a := range map[string]answer{
		"write": mint(reads, "production", oneCommand), "run": b.do("POST", "/api/kairos_begin", string(begin.NextCall.Arguments), with(reads)),
	} {
		if a.status != http.StatusForbidden || !strings.Contains(a.body, `"needs":"`+needs+`"`) || !strings.Contains(a.header.Get("WWW-Authenticate"), "insufficient_scope") {
			t.Errorf("what needs %s, with a token that only reads = %d %v %s, want 403 that says so", needs, a.status, a.header, a.body)
		}
	}
	for token, sees := range map[string]bool{ada: true, bob: false} {
		a := b.do("POST", "/api/kairos_spaces", everySpaces, with(token))
		if strings.Contains(a.body, `"One"`) != sees || strings.Contains(a.body, `"Shared"`) != sees {
			t.Errorf("the spaces of a token = %s, want the protocols of ada: %t", a.body, sees)
		}
	}
	for token, want := range map[string]string{ada: "sure", bob: "forbidden"} { // as old clients search
		if a := b.do("POST", "/api/kairos_search", `{"query":"one","space_id":"user:acme:ada"}`, with(token)); !strings.Contains(a.body, want) {
			t.Errorf("a search in the space of ada = %d %s, want %q", a.status, a.body, want)
		}
	}
	if a := b.do("POST", "/api/spaces_create", `{"name":"mine"}`, with(bob)); a.status != http.StatusForbidden {
		t.Errorf("a token made a space: %d %s", a.status, a.body)
	}
	if a := b.do("GET", "/approve/run/secret", "", nil); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "This page needs a login") {
		t.Errorf("the page of approvals = %d %s, want 401 and a page: nobody has logged in", a.status, a.body)
	}
	if out := b.command("", "token", "create", "--owner", "user:local:operator", "--name", "x"); !strings.Contains(out, "nobody calls as it") {
		t.Errorf("a token of the machine's operator: %s", out)
	}
	b.seesNoSecret(ada)
	b.seesNoSecret(bob)
}

// seesNoSecret checks that neither the log nor a file of the server has one of the secrets.
func (b *program) seesNoSecret(secrets ...string) {
	b.t.Helper()
	has := func(text string) bool {
		return slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) })
	}
	if has(b.stderr.String()) {
		b.t.Error("the log has a secret")
	}
	err := filepath.WalkDir(b.path("data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if has(string(text)) {
			b.t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
}

func TestCommandsUseATokenOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	id, ada := b.tokenOf("user:acme:ada")
	if out := b.command(ada, "spaces", "list", "--url", b.url); !strings.Contains(out, "user:acme:ada") {
		t.Errorf("spaces list with a token: %s", out)
	}
	if out := b.command(ada, "runs", "list", "--url", b.url); strings.Contains(out, "Error") {
		t.Errorf("runs list with a token: %s", out)
	}
	for name, tc := range map[string]struct{ token, want string }{
		"none":           {"", "This server needs a token"},
		"a wrong one":    {"krs_nothing", "this is not a token of KAIROS"},
		"an unknown one": {forgedToken, "this server has no such token"},
	} {
		if out := b.command(tc.token, "spaces", "list", "--url", b.url); !strings.Contains(out, tc.want) || !strings.Contains(out, "kairos token create") {
			t.Errorf("with %s: %s, want %q and what to do", name, out, tc.want)
		}
	}
	until(t, "the use is in the list", func() bool {
		return strings.Contains(b.command("", "token", "list", "-o", "json"), `"last_used"`)
	})
	if out := b.command("", "token", "revoke", id[len(id)-8:]); !strings.Contains(out, "revoked token "+id[len(id)-8:]) {
		t.Fatalf("token revoke: %s", out)
	}
	until(t, "the token is refused", func() bool {
		return strings.Contains(b.command(ada, "spaces", "list", "--url", b.url), "this token was revoked")
	})
	if out := b.command("", "token", "list"); strings.Contains(out, id) || !strings.Contains(out, "1 more token") {
		t.Errorf("token list = %s, want the revoked one left out", out)
	}
}

// forgedToken has the form of a token, and nobody has made it.
const forgedToken = "krs_00000000000000000000000000000000000000000003PNAeV"

// until polls with a deadline.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) { // polling with a deadline
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestARevokedTokenEndsItsSessionsAndStreams(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	id, laptop := b.tokenOf("user:acme:ada")
	_, phone := b.tokenOf("user:acme:ada")
	a := b.do("POST", "/mcp", handshake, with(laptop))
	session := a.header.Get("Mcp-Session-Id")
	if a.status != http.StatusOK || session == "" {
		t.Fatalf("initialize = %d %s", a.status, a.body)
	}
	if a := b.do("POST", "/mcp", listOld, with(phone, "Mcp-Session-Id", session)); a.status != http.StatusNotFound {
		t.Errorf("the session with another token of its owner = %d, want 404", a.status)
	}
	if a := b.do("POST", "/mcp", listOld, with(laptop, "Mcp-Session-Id", session)); a.status != http.StatusOK {
		t.Errorf("the session = %d %s, want 200", a.status, a.body)
	}
	res := b.stream(http.MethodGet, "", with(laptop, "Mcp-Session-Id", session))
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != ": open" {
		t.Fatalf("the stream begins with %q, %v", lines.Text(), lines.Err())
	}
	if out := b.command("", "token", "revoke", id); !strings.Contains(out, "revoked token") {
		t.Fatalf("token revoke: %s", out)
	}
	took := untilItEnds(lines)
	t.Logf("the stream ended %s after the revocation", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("the stream ended %s after the revocation, want at most a second", took)
	}
	if a := b.do("POST", "/mcp", listOld, with(laptop, "Mcp-Session-Id", session)); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "revoked") {
		t.Errorf("the session with the revoked token = %d %s, want 401", a.status, a.body)
	}
	if a := b.do("POST", "/mcp", listOld, with(phone, "Mcp-Session-Id", session)); a.status != http.StatusNotFound {
		t.Errorf("the session with the other token = %d, want 404", a.status)
	}
}

func TestARevokedTokenEndsTheQuestionsThatItsAgentWaitsFor(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "auth: {enabled: true}\nmcp: {wait: 2m}\n")
	id, laptop := b.tokenOf("user:acme:ada")
	_, phone := b.tokenOf("user:acme:ada")
	minted := b.do("POST", "/api/kairos_mint/raw?llm_model_id=test", approvedCommand, with(laptop, "Content-Type", "text/markdown"))
	var stored struct{ Items []struct{ URI string } }
	if err := json.Unmarshal([]byte(minted.body), &stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("mint = %d %s", minted.status, minted.body)
	}
	asks := strings.Replace(handshake, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)
	session := b.do("POST", "/mcp", asks, with(laptop)).header.Get("Mcp-Session-Id")
	in := with(laptop, "Mcp-Session-Id", session)
	begun := b.do("POST", "/mcp", rpcCall(2, "kairos_begin", `{"uri":"`+stored.Items[0].URI+`"}`, ""), in)
	var reply struct {
		Result struct {
			StructuredContent struct {
				NextCall struct{ Arguments json.RawMessage } `json:"next_call"`
			}
		}
	}
	if err := json.Unmarshal([]byte(begun.body), &reply); err != nil {
		t.Fatalf("begin = %d %s", begun.status, begun.body)
	}
	res := b.stream(http.MethodPost, rpcCall(3, "kairos_next", string(reply.Result.StructuredContent.NextCall.Arguments), ""), in)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for seen := ""; !strings.Contains(seen, "elicitation/create"); seen += lines.Text() {
		if !lines.Scan() {
			t.Fatalf("the call ended without a question: %v %s", lines.Err(), seen)
		}
	}
	b.command("", "token", "revoke", id)
	if took := untilItEnds(lines); took > 10*time.Second {
		t.Errorf("the call ended %s after the revocation, want at most a second", took)
	}
	if out := b.command(phone, "runs", "list", "--url", b.url); !strings.Contains(out, "Release") || !strings.Contains(out, "0/1") && !strings.Contains(out, "1/1") {
		t.Errorf("the runs of the owner with another token: %s, want the one that waits", out)
	}
}

// stream opens a reply that stays open.
func (b *program) stream(method, body string, headers map[string]string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+"/mcp", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// untilItEnds returns how long the server took to end a stream.
func untilItEnds(lines *bufio.Scanner) time.Duration {
	began := time.Now()
	for lines.Scan() {
	}
	return time.Since(began)
}

// A server that other machines reach asks for tokens, and for TLS.
func TestIdentityLetsAServerListenForOthers(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	for name, tc := range map[string]struct{ more, want string }{
		"in the clear":  {"auth: {enabled: true}\n", "with tokens in the clear"},
		"for everybody": {"", "without authentication"},
	} {
		s.configure(tc.more + "metrics: {listen: 'off'}\n")
		out, err := s.program("serve", "--http", "0.0.0.0:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("serve %s: %v, %s, want %q", name, err, out, tc.want)
		}
	}
	s.configure("auth: {enabled: true}\nhttp: {trusted_proxies: [10.0.0.0/8]}\n")
	l := s.startAt("0.0.0.0:0")
	if strings.Contains(s.stderr.String(), "INSECURE") {
		t.Errorf("a server with identity behind a proxy calls itself insecure: %s", s.stderr.String())
	}
	l.url = "http://127.0.0.1:" + l.url[strings.LastIndex(l.url, ":")+1:]
	if status, reply := l.request("POST", "/api/kairos_spaces", "application/json", `{}`); status != http.StatusUnauthorized {
		t.Errorf("a call without a token = %d %v, want 401", status, reply)
	}
}
