package search_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/docs/manualtest"
)

// locked evaluates the queries that no weight may be chosen by, instead of the others.
var locked = flag.Bool("locked", false, "evaluate the locked queries of testdata/retrieval instead of the open ones")

// threshold is the default SCORE_THRESHOLD.
const threshold = 0.3

// No change may let the recall fall below these.
var (
	leastRecall = map[string]float64{
		"exact": 1, "partial": 1, "typing": 1, "forms": 1, "keywords": 1, "sentences": 0.88, "tickets": 0.77, "midwork": 0.77, "languages": 0.53, "paraphrases": 0.41,
	}
	leastFirst = map[string]float64{
		"exact": 1, "partial": 1, "forms": 1, "typing": 0.95, "keywords": 0.97, "sentences": 0.83, "tickets": 0.55, "midwork": 0.55, "paraphrases": 0.13,
	}
)

// query is one of testdata/retrieval.
type query struct {
	Kind, Query string
	Relevant    []string // names of files, without .md
	Locked      bool
}

// retrieval is the set that nobody tuned on: an index of its protocols, whose ChainIDs are
// the names of their files, and its queries by their kinds.
func retrieval(t testing.TB) (index *search.Index, byKind map[string][]query) {
	t.Helper()
	index = search.New(meaning.Default())
	const from = "../../testdata/retrieval"
	files, err := filepath.Glob(from + "/protocols/*.md")
	if err != nil || len(files) < 300 {
		t.Fatalf("there are %d protocols, %v, want 300", len(files), err)
	}
	named := map[string]bool{}
	for _, file := range files {
		doc, err := os.ReadFile(file) //nolint:gosec // a file of this repository
		if err != nil {
			t.Fatal(err)
		}
		parsed, found := protocol.Parse(doc)
		if len(parsed) != 1 || len(found) > 0 {
			t.Fatalf("%s has %d protocols and the findings %v, want one and none", file, len(parsed), found)
		}
		parsed[0].ID = strings.TrimSuffix(filepath.Base(file), ".md")
		named[parsed[0].ID] = true
		index.Put(search.OutlineOf("", parsed[0], meaning.Default()))
	}
	lines, err := os.ReadFile(from + "/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	byKind = map[string][]query{}
	for line := range strings.Lines(string(lines)) {
		var q query
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for _, name := range q.Relevant {
			if !named[name] {
				t.Fatalf("query %q is about %s.md, which does not exist", q.Query, name)
			}
		}
		if q.Locked == *locked {
			byKind[q.Kind] = append(byKind[q.Kind], q)
		}
	}
	return index, byKind
}

// shown is what a reply shows for a request, in its order.
func shown(index *search.Index, text string) (search.Answer, []search.Found) {
	a := index.Search(search.Request{Texts: []string{text}, Spaces: []string{""}, Threshold: threshold, Choices: 5, Unsure: 3, Nearest: 5})
	return a, slices.Concat(a.Choices, a.Nearest)
}

// retrieved are the shares of the queries of a kind.
type retrieved struct {
	queries, first, among5, shown, chosen float64
	wrong                                 int // sure of another protocol
}

// TestTheManualHasTheRecall prints with -v what make bench-search shows, the table of
// docs/development/measuring.md. Any of the protocols that answer a query counts. "Shown" is what
// is a choice or nearest, and "chosen" what reaches the threshold; for nothing, that nothing does.
func TestTheManualHasTheRecall(t *testing.T) {
	index, byKind := retrieval(t)
	var table strings.Builder
	table.WriteString("| kind | queries | recall@1 | recall@5 | shown | chosen |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		r := retrieve(t, index, byKind[kind])
		if kind == "nothing" {
			fmt.Fprintf(&table, "| %s | %.0f | | | | %.2f |\n", kind, r.queries, r.chosen)
		} else {
			fmt.Fprintf(&table, "| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", kind, r.queries, r.first, r.among5, r.shown, r.chosen)
		}
		if least := leastRecall[kind]; !*locked && (r.among5 < least || r.first < leastFirst[kind]) {
			t.Errorf("recall of kind %s is %.3f at 5, want %.2f, and %.3f at 1, want %.2f", kind, r.among5, least, r.first, leastFirst[kind])
		}
		if r.wrong > 0 {
			t.Errorf("search is sure of another protocol for %d queries of kind %s, want never", r.wrong, kind)
		}
	}
	t.Log("\n" + table.String())
	if !*locked {
		manualtest.Table(t, *update, "core/search", "docs/development/measuring.md", "recall", table.String())
	}
}

func retrieve(t *testing.T, index *search.Index, queries []query) retrieved {
	t.Helper()
	r := retrieved{queries: float64(len(queries))}
	for _, q := range queries {
		a, all := shown(index, q.Query)
		at := slices.IndexFunc(all, func(f search.Found) bool { return slices.Contains(q.Relevant, f.ChainID) })
		if at == 0 {
			r.first++
		} else if a.Confidence == search.ConfidenceSure {
			t.Logf("sure of %q for %q", all[0].Title, q.Query)
			r.wrong++
		}
		if at >= 0 {
			r.shown++
		}
		if at >= 0 && at < 5 {
			r.among5++
		}
		if at >= 0 && at < len(a.Choices) || len(q.Relevant) == 0 && len(a.Choices) == 0 {
			r.chosen++
		}
	}
	r.first, r.among5, r.shown, r.chosen = r.first/r.queries, r.among5/r.queries, r.shown/r.queries, r.chosen/r.queries
	return r
}
