package cli_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

func TestACommandStoresSomethingOrOnlyReads(t *testing.T) {
	root := cli.Root("1.0.0")
	for name, want := range map[string]bool{
		"doctor": false, "runs list": false, "runs show": false, "runs export": false, "search": false, "dump": false, "lint": false,
		"status": false, "export": false, "list": false, "spaces": false, "history": false, "diff": false, "grants list": false,
		"serve": true, "mint": true, "update": true, "delete": true, "restore": true, "import": true, "run": true, "begin": true,
		"next": true, "attest": true, "call": true, "allow": true, "grants revoke": true, "runs resume": true, "runs decide": true,
		"runs cancel": true, "runs abandon": true, "runs redact": true, "runs prune": true, "index rebuild": true,
	} {
		cmd, left, err := root.Find(strings.Fields(name))
		if err != nil || len(left) > 0 {
			t.Errorf("there is no command %s: %v", name, err)
			continue
		}
		if got := session.Stores(cmd); got != want {
			t.Errorf("Stores(%s) = %t, want %t", name, got, want)
		}
	}
}
