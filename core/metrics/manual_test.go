package metrics_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of series into the manual")

// The table of the manual lies between these lines.
const (
	manual     = "../../docs/reference/metrics-and-logs.md"
	tableStart = "<!-- series -->\n"
	tableEnd   = "<!-- end of series -->\n"
)

// compareWithManual compares what a scrape declares with the manual's table.
// Every family must have a series by now.
func compareWithManual(t *testing.T, text string) {
	t.Helper()
	b, err := os.ReadFile(manual)
	check(t, err)
	before, rest, begins := strings.Cut(string(b), tableStart)
	table, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of series", manual)
	}
	want := tableOf(text)
	if *update {
		check(t, os.WriteFile(manual, []byte(before+tableStart+want+tableEnd+after), 0o644))
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the manual's table is not what is served; run the test with -update (-want +got):\n%s", diff)
	}
}

func tableOf(text string) string {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families(text) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labelsOf(text, f.name), strings.TrimSuffix(f.help, "."))
	}
	return b.String()
}

// labelsOf lists the labels of a family besides those that every series has.
func labelsOf(text, name string) string {
	names := make(map[string]bool)
	for line := range strings.Lines(text) {
		of, labels, _ := strings.Cut(line, "{")
		if of != name && of != name+"_count" {
			continue
		}
		for pair := range strings.SplitSeq(labels, `",`) {
			label, _, _ := strings.Cut(pair, "=")
			names[label] = true
		}
	}
	for _, everywhere := range []string{"service", "kairos_version", "instance"} {
		delete(names, everywhere)
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
