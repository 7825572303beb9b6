package audit_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/docs/manualtest"
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
	manualtest.Table(t, *update, "core/audit", "docs/reference/audit-log.md", "actions", table.String())
}
