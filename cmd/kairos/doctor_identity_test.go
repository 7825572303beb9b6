package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// TestDoctorExaminesTheIdentityProvider: with a provider that is a program of its own.
func TestDoctorExaminesTheIdentityProvider(t *testing.T) {
	t.Parallel()
	p := programs.StartProvider(t)
	s := &served{t: t, dir: t.TempDir()}
	doctor := func(oidc, http string) string {
		t.Helper()
		s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: 'off'}\ndrivers: {dir: "+buildDrivers(t)+"}\noidc: {"+oidc+"}\nhttp: {"+http+"}\n")
		return s.command("", "doctor")
	}
	const proxied = "public_url: 'https://kairos.example', trusted_proxies: [127.0.0.1/32]"
	known := "audience: '" + ourAudience + "', issuer: '" + p.Issuer
	for name, tc := range map[string]struct{ oidc, http, want string }{
		"all is well":       {known + "', client_id: kairos", proxied, `(?m)^ok +provider +` + p.Issuer + `: 1 key; tokens must be for https://kairos.example; people log in there as client kairos$`},
		"no client":         {known + "'", proxied, `(?m)^ok +provider .*oidc.client_id is not set$`},
		"another issuer":    {known + "/'", proxied, `(?m)^BAD +provider .*\n.*\n? *.*did not match`},
		"another audience":  {known + "'", "public_url: 'https://k.example', trusted_proxies: [127.0.0.1/32]", `warning: clients reach the server at https://k.example and ask for a token for https://kairos.example`},
		"nobody ends TLS":   {known + "'", "public_url: 'https://kairos.example'", `(?m)^BAD +public address +https://kairos.example$`},
		"no secret":         {known + "', client_id: kairos, client_secret_file: nowhere", proxied, `(?m)^BAD +provider .*\n.*oidc.client_secret_file`},
		"it is not reached": {"audience: x, issuer: 'http://127.0.0.1:1/realms/acme'", proxied, `(?m)^BAD +provider .*\n.*connection refused\n.*let this machine reach it`},
	} {
		if got := doctor(tc.oidc, tc.http); !regexp.MustCompile(tc.want).MatchString(got) {
			t.Errorf("%s:\n%s\nwant %s", name, got, tc.want)
		}
	}
}

func TestDoctorNamesTokensThatEndSoon(t *testing.T) {
	t.Parallel()
	s := &served{t: t, dir: t.TempDir()}
	configure := func(auth string) {
		t.Helper()
		s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: 'off'}\ndrivers: {dir: "+buildDrivers(t)+"}\n"+auth)
	}
	configure("auth: {enabled: true}\n")
	ends, _ := s.tokenOf("user:acme:ada", "--expires", "3d")
	s.tokenOf("user:acme:ada", "--expires", "90d")
	s.tokenOf("user:acme:ada", "--expires", "never")
	revoked, _ := s.tokenOf("user:acme:bob", "--expires", "3d")
	s.command("", "token", "revoke", revoked)
	got := s.command("", "doctor")
	if want := "warning: " + ends[len(ends)-8:] + " of user:acme:ada, test, expires on "; !strings.Contains(got, want) || strings.Count(got, "expires on") != 1 || !regexp.MustCompile(`(?m)^ok +tokens +3 tokens of this server$`).MatchString(got) {
		t.Errorf("doctor says\n%s\nwant the token that ends in three days, and no other", got)
	}
	configure("")
	if got := s.command("", "doctor"); !strings.Contains(got, "warning: they protect nothing") {
		t.Errorf("without auth.enabled doctor says\n%s\nwant that tokens protect nothing", got)
	}
}
