package evaluation_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/search/evaluation"
)

// retrieved are the shares of the queries of a kind.
type retrieved struct {
	queries, first, among5, chosen, shown float64
	wrong                                 int // sure of another protocol
}

// The table of the manual lies between these lines.
const (
	manual     = "../../../docs/development/measuring.md"
	tableStart = "<!-- recall: written by go test ./core/search/evaluation -run Memory -update -->\n"
	tableEnd   = "<!-- end of recall -->\n"
)

var update = flag.Bool("update", false, "write the table of recall into the manual")

// Any of the protocols that answer a query counts. "Chosen" is what reaches the threshold; for
// nothing, that nothing does.
func TestTheIndexInMemoryIsMeasured(t *testing.T) {
	set, byKind := retrieval(t)
	index := search.New(meaning.Default())
	for _, c := range set.Chains {
		index.Put(search.OutlineOf("", c, meaning.Default()))
	}
	var table strings.Builder
	table.WriteString("\n| kind | queries | recall@1 | recall@5 | shown | chosen |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		r := retrieve(t, index, byKind[kind])
		if kind == "nothing" {
			fmt.Fprintf(&table, "| %s | %.0f | | | | %.2f |\n", kind, r.queries, r.chosen)
		} else {
			fmt.Fprintf(&table, "| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", kind, r.queries, r.first, r.among5, r.shown, r.chosen)
		}
		if least := leastRecall[kind]; r.among5 < least || r.first < leastFirst[kind] {
			t.Errorf("recall of kind %s is %.3f at 5, want %.2f, and %.3f at 1, want %.2f", kind, r.among5, least, r.first, leastFirst[kind])
		}
		if r.wrong > 0 {
			t.Errorf("search is sure of another protocol for %d queries of kind %s, want never", r.wrong, kind)
		}
	}
	compareWithManual(t, table.String()+"\n")
}

func compareWithManual(t *testing.T, want string) {
	t.Helper()
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(b), tableStart)
	table, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of recall", manual)
	}
	if *update {
		if err := os.WriteFile(manual, []byte(before+tableStart+want+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the manual's table is not what was measured; run the test with -update:\n%s", want)
	}
}

// No change may let the recall fall below these.
var (
	leastRecall = map[string]float64{
		"exact": 1, "partial": 1, "typing": 1, "forms": 1, "keywords": 1, "sentences": 0.88, "tickets": 0.77, "midwork": 0.77, "languages": 0.53, "paraphrases": 0.41,
	}
	leastFirst = map[string]float64{
		"exact": 1, "partial": 1, "forms": 1, "typing": 0.95, "keywords": 0.97, "sentences": 0.83, "tickets": 0.55, "midwork": 0.55, "paraphrases": 0.13,
	}
)

func retrieve(t *testing.T, index *search.Index, queries []evaluation.Query) retrieved {
	t.Helper()
	r := retrieved{queries: float64(len(queries))}
	for _, q := range queries {
		a := index.Search(search.Request{Texts: []string{q.Text}, Spaces: []string{""}, Threshold: evaluation.Threshold, Choices: 5, Nearest: 5})
		all := slices.Concat(a.Choices, a.Nearest)
		at := slices.IndexFunc(all, func(f search.Found) bool { return slices.Contains(q.Want, f.Title) })
		if at == 0 {
			r.first++
		} else if a.Confidence == search.ConfidenceSure {
			t.Logf("sure of %q for %q", all[0].Title, q.Text)
			r.wrong++
		}
		if at >= 0 {
			r.shown++
		}
		if at >= 0 && at < 5 {
			r.among5++
		}
		if at >= 0 && at < len(a.Choices) || len(q.Want) == 0 && len(a.Choices) == 0 {
			r.chosen++
		}
	}
	r.first, r.among5, r.chosen, r.shown = r.first/r.queries, r.among5/r.queries, r.chosen/r.queries, r.shown/r.queries
	return r
}
