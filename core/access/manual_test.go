package access_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/docs/manualtest"
)

var update = flag.Bool("update", false, "write the table of the manual")

// TestTheManualSaysWhatEachCallNeeds makes the table of docs/reference/rights.md from the one of
// core/access, which has each tool and each operation. With -update it writes it.
func TestTheManualSaysWhatEachCallNeeds(t *testing.T) {
	var served []string
	var table strings.Builder
	row := func(kind, name, title string) {
		served = append(served, name)
		fmt.Fprintf(&table, "| `%s` | %s | %s | `%s` |\n", name, kind, title, access.Needs(name))
	}
	table.WriteString("| call | | | needs |\n|---|---|---|---|\n")
	for _, o := range toolset.Table {
		row("tool", o.Name, o.Title)
	}
	for _, o := range operations.Table {
		row("operation", o.Name, o.Title)
	}
	slices.Sort(served)
	if diff := cmp.Diff(access.UseCases(), served); diff != "" {
		t.Errorf("the table of core/access has other calls than are served (-table +served):\n%s", diff)
	}
	manualtest.Table(t, *update, "core/access", "docs/reference/rights.md", "calls", table.String())
}
