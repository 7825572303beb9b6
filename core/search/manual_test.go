package search_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/search"
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
	inManual(t, "docs/reference/search.md", "scores", table.String())
}

// inManual compares a table with the one between two comments of a page. With -update it
// writes it.
func inManual(t *testing.T, page, name, table string) {
	t.Helper()
	page = "../../" + page
	old, err := os.ReadFile(page) //nolint:gosec // a page of this repository
	if err != nil {
		t.Fatal(err)
	}
	from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, begins := strings.Cut(string(old), from)
	_, tail, ends := strings.Cut(rest, to)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of %s", page, name)
	}
	now := head + from + table + to + tail
	if *update {
		if err := os.WriteFile(page, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if now != string(old) {
		t.Errorf("the table of %s is not as it is made now; run go test ./core/search -run Manual -update:\n%s", page, table)
	}
}
