package main

import (
	"strings"
	"testing"
)

// connectsTo checks the connection of a client whose file is written first, and returns what that prints.
func (b *program) connectsTo(token string, flags ...string) string {
	b.t.Helper()
	return b.command(token, append([]string{"connect", "cursor", "--file", b.dir + "/mcp.json", "--write", "--check", "--http", b.url}, flags...)...)
}

// TestConnectChecksHowAClientGetsIn: a client logs in at a provider itself, and needs a token
// where there is none.
func TestConnectChecksHowAClientGetsIn(t *testing.T) {
	t.Parallel()
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		b := identifying(t)
		_, ada := b.tokenOf("user:acme:ada")
		for name, tc := range map[string]struct{ token, flag, want string }{
			"no token":      {ada, "--write", "it has no identity provider to log in at; its operator makes tokens (`kairos token create`), and --token-env has Cursor send one"},
			"none is set":   {"", "--token-env", "takes a token from KAIROS_BEARER_TOKEN, which is not set in this shell"},
			"a wrong one":   {forgedToken, "--token-env", "the server does not take the token in KAIROS_BEARER_TOKEN"},
			"the right one": {ada, "--token-env", "The server answers with 9 tools"},
		} {
			got := b.connectsTo(tc.token, tc.flag)
			if !strings.Contains(got, tc.want) || tc.token != "" && strings.Contains(got, tc.token) {
				t.Errorf("%s: %s\nwant %q and no token", name, got, tc.want)
			}
		}
	})
	t.Run("a provider", func(t *testing.T) {
		t.Parallel()
		b, p := withProvider(t)
		want := "The server asks for a login at " + p.Issuer + ", which Cursor does itself"
		if got := b.connectsTo(""); !strings.Contains(got, want) || strings.Contains(got, "Error") {
			t.Errorf("connect --check = %s\nwant %q", got, want)
		}
	})
}
