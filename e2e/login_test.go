package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

const loginTimeout = 3 * time.Minute

// TestOfficialClientsLogIn lets the OAuth code of the official TypeScript clients find the
// identity provider, log a person in, and continue with a refreshed token.
func TestOfficialClientsLogIn(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	s := serverWithProvider(t, bin)
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			cmd := exec.Command("node", "lib/login.mjs", era, s.URL()+"/mcp", "ada")
			out, err := output(t.Context(), loginTimeout, cmd)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			var got struct {
				Refused, Spaces, Resource string
				Tools, Refreshed          int
				SameSession               bool
			}
			if err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &got) != nil {
				t.Fatalf("the login: %v\n%s", err, out)
			}
			if got.Refused != "UnauthorizedError" || got.Tools != 9 || got.Resource != s.URL() {
				t.Errorf("the client was refused with %q, then asked for a token for %q and saw %d tools, want 9 for %s", got.Refused, got.Resource, got.Tools, s.URL())
			}
			if got.Refreshed != 1 || !got.SameSession || !strings.Contains(got.Spaces, "user:acme:ada") || !strings.Contains(got.Spaces, "group:acme:sre") {
				t.Errorf("with a refreshed token (%d, in its session: %t) the client sees %s, want ada's spaces", got.Refreshed, got.SameSession, got.Spaces)
			}
		})
	}
}

// serverWithProvider starts a server that takes the tokens of an identity provider for its own
// address.
func serverWithProvider(t *testing.T, bin string) *programs.Server {
	t.Helper()
	provider := programs.StartProvider(t)
	dir := t.TempDir()
	s := programs.NewServer(t, dir)
	config := filepath.Join(dir, "kairos.yaml")
	text := "metrics: {listen: 'off'}\nadmin: {socket: 'off'}\noidc: {issuer: '" + provider.Issuer + "', audience: '" + s.URL() + "'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Command = func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "kairos"), append(args, "--config", config, "--db", filepath.Join(dir, "kairos.db"))...)
		cmd.Env = ownEnv(dir)
		return cmd
	}
	s.Start()
	t.Cleanup(s.Kill)
	s.AwaitReady()
	return s
}
