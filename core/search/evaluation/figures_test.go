package evaluation_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search/evaluation"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
)

// sameTop is the least share of queries with the same first match on two stores.
const sameTop = 0.90

// backends open an empty store each, under the name it has in the tables.
var backends = []struct {
	name string
	open func(t *testing.T) evaluation.Library
}{
	{"SQLite", openSQLite},
	{"with an index in Qdrant", openIndexed},
}

func openSQLite(t *testing.T) evaluation.Library { return openStore(t) }

func openStore(t *testing.T) *sqlitetest.Store {
	t.Helper()
	s, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), nil)
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

// indexed is a store whose vectors an index compares.
type indexed struct {
	*sqlitetest.Store
	feeder *index.Feeder
}

// Search implements library.Searcher.
func (s indexed) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	if err := s.feeder.Deliver(ctx); err != nil {
		return nil, err
	}
	return s.feeder.Searcher(s.Store).Search(ctx, q)
}

func openIndexed(t *testing.T) evaluation.Library {
	address, s := qdranttest.Start(t), openStore(t)
	x, err := qdrant.New(qdrant.Options{Options: client.Options{URL: address}, Collection: qdranttest.Collection(t, address)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return indexed{s, index.New(s, x, nil)}
}

// The figures are printed with -v; make bench-search shows them.
func TestProtocolsAreFound(t *testing.T) {
	set := load(t)
	var words map[string]evaluation.Report
	t.Run("words only", func(t *testing.T) {
		words = compare(t, set, nil, checkWords)
	})
	t.Run("words and vectors", func(t *testing.T) {
		if testing.Short() {
			t.Skip("-short: takes a minute")
		}
		for name, r := range compare(t, set, endpoint(t), checkVectors) {
			before, now := words[name].Figures(evaluation.Paraphrase), r.Figures(evaluation.Paraphrase)
			if now.Recall5 < before.Recall5+0.05 {
				t.Errorf("%s: recall@5 on paraphrases is %.3f with vectors and %.3f without, want at least 0.05 more", name, now.Recall5, before.Recall5)
			}
		}
	})
}

// compare measures all backends and returns the reports of those that ran, by name.
func compare(t *testing.T, set evaluation.Set, embedder library.Embedder, check func(*testing.T, evaluation.Report)) map[string]evaluation.Report {
	t.Helper()
	reports := map[string]evaluation.Report{}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			reports[b.name] = measure(t, set, b.open(t), embedder)
			check(t, reports[b.name])
		})
	}
	first, second := reports[backends[0].name], reports[backends[1].name]
	if len(first.Answers) != len(second.Answers) {
		return reports // one did not run, and said why
	}
	same := first.SameTop(second)
	t.Logf("same first match on both: %.3f of the queries", same)
	if same < sameTop {
		t.Errorf("%.3f of the queries have the same first match on both, want %.2f", same, sameTop)
	}
	return reports
}

func measure(t *testing.T, set evaluation.Set, store evaluation.Library, embedder library.Embedder) evaluation.Report {
	t.Helper()
	if err := set.Fill(t.Context(), store, embedder); err != nil {
		t.Fatal(err)
	}
	r, err := set.Ask(t.Context(), store, embedder, evaluation.Threshold)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.Table())
	return r
}

// checkTargets holds the half that scores are worked on against what words alone
// have to reach, and vectors must not cost. The other half is only printed.
func checkTargets(t *testing.T, r evaluation.Report) {
	t.Helper()
	r = r.Of(evaluation.Tune)
	for _, target := range []struct {
		least float64
		kinds []evaluation.Kind
	}{
		{0.95, []evaluation.Kind{evaluation.Exact, evaluation.TitleDE, evaluation.TitlePL}},
		{0.95, []evaluation.Kind{evaluation.Partial}},
		{0.95, []evaluation.Kind{evaluation.WordForm}},
		{0.80, []evaluation.Kind{evaluation.Typo}},
		{0.95, []evaluation.Kind{evaluation.Prefix, evaluation.Keyword}},
		{0.65, []evaluation.Kind{evaluation.Sentence}},
	} {
		if f := r.Figures(target.kinds...); f.Recall5 < target.least {
			t.Errorf("recall@5 on %v is %.3f, want at least %.2f; missed:\n%s", target.kinds, f.Recall5, target.least, lines(r.Misses(target.kinds...)))
		}
	}
}

func checkWords(t *testing.T, r evaluation.Report) {
	t.Helper()
	checkTargets(t, r)
	if f := r.Figures(evaluation.Gibberish); f.FalseMatches > 0 {
		t.Errorf("gibberish found something %d times, want never:\n%s", f.FalseMatches, lines(r.Misses(evaluation.Gibberish)))
	}
}

// checkVectors forgives one false match in twenty: every text is near to some other.
func checkVectors(t *testing.T, r evaluation.Report) {
	t.Helper()
	checkTargets(t, r)
	if f := r.Figures(evaluation.Gibberish); 20*f.FalseMatches > f.Queries {
		t.Errorf("gibberish found something %d times of %d, want at most one in twenty:\n%s", f.FalseMatches, f.Queries, lines(r.Misses(evaluation.Gibberish)))
	}
}

func lines(answers []evaluation.Answer) string {
	var b strings.Builder
	for _, a := range answers {
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}

// endpoint starts the fake embedding endpoint and returns a client of it.
func endpoint(t *testing.T) library.Embedder {
	server := embedtest.Start(embedtest.Options{Dimension: 1024})
	t.Cleanup(server.Close)
	client, err := embedding.New(embedding.Config{Provider: "test", URL: server.URL(), Model: "fake"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
