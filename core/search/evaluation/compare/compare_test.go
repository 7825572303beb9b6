package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search/evaluation"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
)

// The table is printed with -v; make bench-search shows it.
func TestTheEnginesSideBySide(t *testing.T) {
	set, err := evaluation.Load(os.DirFS("../../../../testdata/search"))
	if err != nil {
		t.Fatal(err)
	}
	var reports []evaluation.Named
	for _, e := range []struct {
		name      string
		ranksOnly bool
		threshold float64
		open      func(*testing.T, evaluation.Set) library.Searcher
	}{
		{"KAIROS", false, evaluation.Threshold, openSQLite},
		{"SQLite FTS5", true, 0, openFTS5},
		{"bleve", true, 0, openBleve},
	} {
		t.Run(e.name, func(t *testing.T) {
			r, err := set.Ask(t.Context(), e.open(t, set), nil, e.threshold)
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Figures(evaluation.Exact); f.Recall5 < 0.9 {
				t.Errorf("recall@5 on exact titles is %.3f; an engine that misses them is set up wrongly", f.Recall5)
			}
			reports = append(reports, evaluation.Named{Name: e.name, RanksOnly: e.ranksOnly, Report: r})
		})
	}
	var table strings.Builder
	if err := evaluation.Print(&table, reports...); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

func filled(t *testing.T, set evaluation.Set, store evaluation.Library) library.Searcher {
	t.Helper()
	if err := set.Fill(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	return store
}

func openSQLite(t *testing.T, set evaluation.Set) library.Searcher {
	t.Helper()
	s, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return filled(t, set, s)
}

func openFTS5(t *testing.T, set evaluation.Set) library.Searcher {
	t.Helper()
	f, err := NewFTS5(t.Context(), set.Chains)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, f)
	return f
}

func openBleve(t *testing.T, set evaluation.Set) library.Searcher {
	t.Helper()
	b, err := NewBleve(set.Chains)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, b)
	return b
}

func closeAfter(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
