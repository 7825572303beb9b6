package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

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
