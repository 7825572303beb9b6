package evaluation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/search/evaluation"
)

// retrieved are the shares of the queries of a kind.
type retrieved struct {
	queries, first, among5, chosen float64
	wrong                          int // sure of another protocol
}

// The figures are printed with -v; make bench-search shows them. Any of the protocols that answer
// a query counts. "Chosen" is what reaches the threshold; for nothing, that nothing does.
func TestTheIndexInMemoryIsMeasured(t *testing.T) {
	set, byKind := retrieval(t)
	index := search.New(meaning.Default())
	for _, c := range set.Chains {
		index.Put(search.OutlineOf("", c, meaning.Default()))
	}
	var table strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		r := retrieve(t, index, byKind[kind])
		fmt.Fprintf(&table, "\n%-12s %3.0f queries  recall@1 %.2f  recall@5 %.2f  chosen %.2f", kind, r.queries, r.first, r.among5, r.chosen)
		if least := leastRecall[kind]; r.among5 < least || r.first < leastFirst[kind] {
			t.Errorf("recall of kind %s is %.3f at 5, want %.2f, and %.3f at 1, want %.2f", kind, r.among5, least, r.first, leastFirst[kind])
		}
		if r.wrong > 0 {
			t.Errorf("search is sure of another protocol for %d queries of kind %s, want never", r.wrong, kind)
		}
	}
	t.Log(table.String())
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
		if at >= 0 && at < 5 {
			r.among5++
		}
		if at >= 0 && at < len(a.Choices) || len(q.Want) == 0 && len(a.Choices) == 0 {
			r.chosen++
		}
	}
	r.first, r.among5, r.chosen = r.first/r.queries, r.among5/r.queries, r.chosen/r.queries
	return r
}
