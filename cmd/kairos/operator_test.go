package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/socket"
)

func TestCommandsReachAServerOfThisMachineThroughItsSocket(t *testing.T) {
	b := withShippedDrivers(t, "")
	run := b.begin(b.mint(oneCommand)[0])
	for _, address := range []string{b.url, strings.Replace(b.url, "127.0.0.1", "localhost", 1)} {
		if out, err := b.program("runs", "show", run, "--url", address).CombinedOutput(); err != nil || !strings.Contains(string(out), run) {
			t.Errorf("runs show --url %s: %v\n%s", address, err, out)
		}
	}
	token := operatorToken(t, b.path("run/admin.sock"))
	for name, tc := range map[string]struct {
		token string
		want  string
	}{
		"from the environment": {token, run},
		"a wrong one":          {"wrong", "set KAIROS_BEARER_TOKEN to the token"},
		// The socket of the server is not where the commands of another configuration look.
		"none": {"", b.path("run/admin.token")},
	} {
		cmd := b.program("runs", "show", run, "--url", b.url)
		cmd.Env = append(cmd.Env, "KAIROS_CONFIG=", "XDG_CONFIG_HOME="+b.dir, "HOME="+b.dir, "KAIROS_BEARER_TOKEN="+tc.token)
		if out, err := cmd.CombinedOutput(); (err == nil) != (tc.want == run) || !strings.Contains(string(out), tc.want) {
			t.Errorf("with %s: %v, want %q in it\n%s", name, err, tc.want, out)
		}
	}
}

// operatorToken is the token of the server with the socket.
func operatorToken(t *testing.T, at string) string {
	t.Helper()
	written, err := os.ReadFile(socket.TokenFile(at))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(written))
}
