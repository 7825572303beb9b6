package main

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// revocationTime is what a revocation may take where tests keep the machine busy. The manual says a second.
const revocationTime = 15 * time.Second

// A command on the machine of one server revokes a token and a login. The other servers of the database
// refuse both, and end the stream of the token.
func TestARevocationHoldsAtEveryServerOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"PostgreSQL": func(t *testing.T) string { t.Helper(); return postgrestest.Start(t).Database(t) },
		"SQLite":     func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "shared.db") },
	} {
		t.Run(name, func(t *testing.T) {
			address := database(t)
			start := func() *program {
				return programOf(onPostgres(t, address, "auth: {enabled: true}\n").startHTTP())
			}
			one, other := start(), start()
			id, token := one.tokenOf("user:acme:ada")
			session := other.do("POST", "/mcp", handshake, with(token)).header.Get("Mcp-Session-Id")
			in := with(token, "Mcp-Session-Id", session)
			if a := other.do("POST", "/mcp", listOld, in); a.status != http.StatusOK {
				t.Fatalf("the session at the other server = %d %s", a.status, a.body)
			}
			res := other.stream(http.MethodGet, "", in)
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			if !lines.Scan() || lines.Text() != ": open" {
				t.Fatalf("the stream begins with %q, %v", lines.Text(), lines.Err())
			}
			person := other.browser(t)
			link, login := one.loginLink("--as", "user:acme:bob")
			person.wants("POST", link, "", 200, "user:acme:bob")
			page := other.url + "/auth/login"
			person.wants("GET", page, "", 200, "user:acme:bob")

			if out := one.command("", "token", "revoke", id); !strings.Contains(out, "revoked token") {
				t.Fatalf("token revoke: %s", out)
			}
			revoked := time.Now()
			ended := untilItEnds(lines)
			until(t, "the other server refuses the token", func() bool {
				return other.do("POST", "/api/kairos_spaces", `{}`, with(token)).status == http.StatusUnauthorized
			})
			refused := time.Since(revoked)
			if out := one.command("", "logins", "revoke", login); !strings.Contains(out, "ended login") {
				t.Fatalf("logins revoke: %s", out)
			}
			person.wants("GET", page, "", 200, "Nobody is logged in") // logins are looked up each time
			t.Logf("after the revocation the stream at the other server ended in %s, and the token was refused in at most %s", ended.Round(time.Millisecond), refused.Round(time.Millisecond))
			if ended > revocationTime || refused > revocationTime {
				t.Errorf("the stream ended in %s and the token was refused in %s, want at most a second", ended, refused)
			}
			if a := other.do("POST", "/mcp", listOld, in); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "revoked") {
				t.Errorf("the session with the revoked token = %d %s, want 401", a.status, a.body)
			}
		})
	}
}
