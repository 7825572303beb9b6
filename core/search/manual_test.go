package search_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/docs/manualtest"
)

var update = flag.Bool("update", false, "write the tables of the manual")

// TestTheManualShowsScores makes the table of docs/reference/search.md from the protocols of
// testdata/retrieval. With -update it writes it.
func TestTheManualShowsScores(t *testing.T) {
	const asked = "roll-back-a-deployment"
	index, _ := retrieval(t)
	var table strings.Builder
	table.WriteString("| request | name | words | meaning | score | shown as |\n|---|---|---|---|---|---|\n")
	for _, text := range []string{
		"Roll back a bad deployment", "rolling back bad deployments", "roll back the bad deployment of the shop", "roll back",
		"undo a bad deployment", "deploiment", "deployment rollback",
	} {
		a, all := shown(index, text)
		at := slices.IndexFunc(all, func(f search.Found) bool { return f.ChainID == asked })
		if at < 0 {
			t.Errorf("%q does not find %s", text, asked)
			continue
		}
		as := "nearest"
		if at < len(a.Choices) {
			as = "choice"
		}
		if at == 0 && a.Confidence == search.ConfidenceSure {
			as = "sure"
		}
		f := all[at]
		fmt.Fprintf(&table, "| %s | %s | %.2f | %.2f | %.2f | %s |\n", text, cmp.Or(f.Why.Name, "-"), f.Why.Words, f.Why.Meaning, f.Score, as)
	}
	manualtest.Table(t, *update, "core/search", "docs/reference/search.md", "scores", table.String())
}
