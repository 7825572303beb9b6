package evaluation_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kairos-mcp/kairos/core/search/evaluation"
)

// retrieval is the set that nobody tuned on: its protocols, and its queries by their kinds.
// Those that are locked are left out.
func retrieval(t *testing.T) (evaluation.Set, map[string][]evaluation.Query) {
	t.Helper()
	from := os.DirFS("../../../testdata/retrieval")
	lines, err := fs.ReadFile(from, "queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(from, "protocols/*.md")
	if err != nil {
		t.Fatal(err)
	}
	only, titles := fstest.MapFS{"queries.jsonl": {}}, map[string]string{}
	for _, file := range files {
		doc, err := fs.ReadFile(from, file)
		if err != nil {
			t.Fatal(err)
		}
		only[file] = &fstest.MapFile{Data: doc}
		heading, _, _ := strings.Cut(string(doc[strings.Index(string(doc), "# ")+2:]), "\n")
		titles[strings.TrimSuffix(strings.TrimPrefix(file, "protocols/"), ".md")] = heading
	}
	set, err := evaluation.Load(only) // also proves that the protocols parse without a finding
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string][]evaluation.Query{}
	for line := range strings.Lines(string(lines)) {
		var q struct {
			Kind, Query string
			Relevant    []string
			Locked      bool
		}
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if q.Locked {
			continue
		}
		asked := evaluation.Query{Text: q.Query, Kind: evaluation.Kind(q.Kind)}
		for _, name := range q.Relevant {
			if titles[name] == "" {
				t.Fatalf("query %q is about %s.md, which does not exist", q.Query, name)
			}
			asked.Want = append(asked.Want, titles[name])
		}
		byKind[q.Kind] = append(byKind[q.Kind], asked)
	}
	return set, byKind
}

// The figures are printed with -v; make bench-search shows them. Any of the protocols that answer
// a query counts. "Ranked" leaves the threshold out: the difference is what it hides.
func TestTheSetThatNobodyTunedOnIsMeasured(t *testing.T) {
	set, byKind := retrieval(t)
	store := openSQLite(t)
	if err := set.Fill(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	among := func(threshold float64) map[string]float64 {
		shares := map[string]float64{}
		for kind, queries := range byKind {
			set.Queries = queries
			r, err := set.Ask(t.Context(), store, nil, threshold)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, a := range r.Answers {
				first := a.Found[:min(5, len(a.Found))]
				if slices.ContainsFunc(first, func(f evaluation.Found) bool { return slices.Contains(a.Query.Want, f.Title) }) ||
					len(a.Query.Want) == 0 && len(first) == 0 {
					found++
				}
			}
			shares[kind] = float64(found) / float64(len(queries))
		}
		return shares
	}
	shown, ranked := among(evaluation.Threshold), among(0)
	var table strings.Builder
	for kind, queries := range byKind {
		fmt.Fprintf(&table, "\n%-12s %3d queries  recall@5 %.2f  ranked %.2f", kind, len(queries), shown[kind], ranked[kind])
	}
	t.Log(table.String())
	for _, kind := range []string{"exact", "partial"} {
		if shown[kind] < 1 {
			t.Errorf("recall@5 of kind %s is %.2f, want 1", kind, shown[kind])
		}
	}
}
