package audit_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/audit"
)

var update = flag.Bool("update", false, "write the table of the manual")

// TestTheManualHasEveryAction makes the table of docs/reference/audit-log.md. With -update it
// writes it.
func TestTheManualHasEveryAction(t *testing.T) {
	var table strings.Builder
	table.WriteString("| action | what happens |\n|---|---|\n")
	for _, a := range audit.Actions {
		fmt.Fprintf(&table, "| `%s` | %s |\n", a.Action, a.Meaning)
	}
	const page, from, to = "../../docs/reference/audit-log.md", "<!-- actions -->\n", "<!-- end of actions -->"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(old), from)
	_, tail, ends := strings.Cut(rest, to)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	switch now := head + from + table.String() + to + tail; {
	case now == string(old):
	case *update:
		if err := os.WriteFile(page, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is not as it is made now; run go test ./core/audit -run Manual -update", page)
	}
}
