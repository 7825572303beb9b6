package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// A program that reaches the main port, such as a driver with a network, sees and changes
// no runs without the token that lies beside the admin socket.
func TestCallsOfOperatorsNeedTheTokenOfTheServer(t *testing.T) {
	b := withShippedDrivers(t, "")
	run := b.begin(b.mint(oneCommand)[0])
	at := b.path("run/admin.sock")
	token := operatorToken(t, at)
	if info, err := os.Stat(socket.TokenFile(at)); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file with the token is %v, %v, want mode 0600", info, err)
	}
	for _, o := range operations.Table {
		for name, headers := range map[string]map[string]string{
			"nothing": nil, "a wrong token": {"Authorization": "Bearer " + strings.ToLower(token)}, "the token without its scheme": {"Authorization": token},
			"the address of a proxy": {"X-Forwarded-For": "127.0.0.1"},
		} {
			a := b.do("POST", o.Path(), fmt.Sprintf(`{"run_id":%q}`, run), headers)
			if a.status != http.StatusUnauthorized || !strings.Contains(a.body, socket.TokenFile(at)) || strings.Contains(a.body, run) {
				t.Errorf("%s with %s = %d %s, want 401 that says where the token is", o.Name, name, a.status, a.body)
			}
		}
	}
	if a := b.do("POST", "/api/runs_list", `{}`, map[string]string{"Authorization": "Bearer " + token}); a.status != http.StatusOK || !strings.Contains(a.body, run) {
		t.Errorf("runs_list with the token = %d %s", a.status, a.body)
	}
}

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
