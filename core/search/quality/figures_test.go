package quality_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/search/quality"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// sameTop is the least share of queries with the same first match on two stores.
const sameTop = 0.90

// backends open an empty store each, under the name it has in the tables.
var backends = []struct {
	name string
	open func(t *testing.T) quality.Library
}{
	{"SQLite", openSQLite},
}

func openSQLite(t *testing.T) quality.Library {
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "kairos.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The figures are printed with -v; make bench-search shows them.
func TestProtocolsAreFound(t *testing.T) {
	set := load(t)
	for name, mode := range map[string]struct {
		embedder engine.Embedder
		check    func(*testing.T, quality.Report)
	}{
		"words only":        {nil, checkWords},
		"words and vectors": {endpoint(t), checkVectors},
	} {
		t.Run(name, func(t *testing.T) {
			var reports []quality.Report
			for _, b := range backends {
				t.Run(b.name, func(t *testing.T) {
					r := measure(t, set, b.open(t), mode.embedder)
					reports = append(reports, r)
					mode.check(t, r)
				})
			}
			for i := 1; i < len(reports); i++ {
				same := reports[0].SameTop(reports[i])
				t.Logf("same first match on both: %.3f of the queries", same)
				if same < sameTop {
					t.Errorf("%.3f of the queries have the same first match on both, want %.2f", same, sameTop)
				}
			}
		})
	}
}

func measure(t *testing.T, set quality.Set, store quality.Library, embedder engine.Embedder) quality.Report {
	t.Helper()
	if err := set.Fill(t.Context(), store, embedder); err != nil {
		t.Fatal(err)
	}
	r, err := set.Ask(t.Context(), store, embedder)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.Print(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	return r
}

// checkWords holds a report of words alone against the targets.
func checkWords(t *testing.T, r quality.Report) {
	t.Helper()
	for _, target := range []struct {
		least float64
		kinds []quality.Kind
	}{
		{0.95, []quality.Kind{quality.Exact, quality.TitleDE, quality.TitlePL}},
		{0.95, []quality.Kind{quality.Partial}},
		{0.95, []quality.Kind{quality.WordForm}},
		{0.80, []quality.Kind{quality.Typo}},
	} {
		if f := r.Figures(target.kinds...); f.Recall5 < target.least {
			t.Errorf("recall@5 on %v is %.3f, want at least %.2f; missed:\n%s", target.kinds, f.Recall5, target.least, lines(r.Misses(target.kinds...)))
		}
	}
	noFalseMatches(t, r)
}

// checkVectors: vectors find more, and what words find is not lost.
func checkVectors(t *testing.T, r quality.Report) {
	t.Helper()
	checkWords(t, r)
}

func noFalseMatches(t *testing.T, r quality.Report) {
	t.Helper()
	if f := r.Figures(quality.Gibberish); f.FalseMatches > 0 {
		t.Errorf("gibberish found something %d times, want never:\n%s", f.FalseMatches, lines(r.Misses(quality.Gibberish)))
	}
}

func lines(answers []quality.Answer) string {
	var b strings.Builder
	for _, a := range answers {
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}

// endpoint starts the fake embedding endpoint and returns a client of it.
func endpoint(t *testing.T) engine.Embedder {
	server := embedtest.Start(embedtest.Options{Dimension: 256})
	t.Cleanup(server.Close)
	client, err := embedding.New(embedding.Config{Provider: "test", URL: server.URL(), Model: "fake"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
