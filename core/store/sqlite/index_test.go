package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// indexedFile is a database with more protocols than one batch of the index,
// changed by the statements while nobody has it open.
func indexedFile(t *testing.T, statements ...string) string {
	t.Helper()
	s, path := fresh(t)
	var changes []library.Change
	for i := range 620 {
		changes = append(changes, library.Change{Chain: storetest.NewChain("user:a", fmt.Sprintf("Protocol walrus%d", i), "Step")})
	}
	if _, err := s.SaveChains(t.Context(), changes); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
	must(t, s.Close())
	db := openRaw(t, path)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return path
}

func wantFound(t *testing.T, s *sqlitetest.Store) {
	t.Helper()
	for _, query := range []string{"walrus0", "walrus619", "Protocol walrus333"} {
		hits, err := s.Search(t.Context(), library.Query{Text: query, Spaces: []string{"user:a"}, Limit: 3})
		if err != nil || len(hits) == 0 || !strings.HasSuffix(hits[0].Chain.Title, strings.TrimPrefix(query, "Protocol ")) {
			t.Errorf("Search(%q) = %v, %v, want its protocol first", query, hits, err)
		}
	}
}

func TestStoresThatStartTogetherMakeTheIndexAgain(t *testing.T) {
	path := indexedFile(t, `UPDATE search_state SET analyser = 0`, `UPDATE search_documents SET document = x'00'`)
	var g errgroup.Group
	for range 3 { // windows of one user
		s := open(t, path)
		g.Go(func() error { wantFound(t, s); return nil })
	}
	_ = g.Wait() // the functions report to t
}

func TestTheIndexOfPassagesIsMadeWithTheFirstVector(t *testing.T) {
	s, path := fresh(t)
	c := storetest.NewChain("user:a", "Rotating credentials", "One", "Two")
	must(t, save(s, c))
	const indexed = `SELECT 1 FROM sqlite_schema WHERE name = 'steps_passage'`
	if rows := raw(t, path, indexed); len(rows) > 0 {
		t.Errorf("there is an index of passages before there is a vector")
	}
	missing, err := s.Missing(t.Context(), "model", 9)
	if err != nil || len(missing) != 2 {
		t.Fatalf("Missing = %v, %v, want two passages", missing, err)
	}
	must(t, s.SaveVectors(t.Context(), "model", map[string][]float32{missing[0].Hash: {1, 2}}))
	if rows := raw(t, path, indexed); len(rows) != 1 {
		t.Errorf("there is no index of passages")
	}
	if missing, err := s.Missing(t.Context(), "model", 9); err != nil || len(missing) != 1 {
		t.Errorf("Missing = %v, %v, want the other passage", missing, err)
	}
}

func TestIndexesOfOtherVersions(t *testing.T) {
	storetest.RunReindex(t, func(t *testing.T) storetest.Reindexed {
		path := filepath.Join(t.TempDir(), "kairos.db")
		return storetest.Reindexed{
			Open: func(t *testing.T) storetest.Indexing { return open(t, path) },
			Record: func(t *testing.T, later int) {
				script(t, path, fmt.Sprintf(`UPDATE search_state SET analyser = %d`, search.Version+later))
			},
		}
	})
}

func TestAnotherProcessFindsWhatWasStoredMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	one, two := open(t, path), open(t, path)
	for i, title := range []string{"Rotating credentials", "Scheduling appointments", "Configuring printers", "Rotating printers"} {
		one, two = two, one
		if _, err := one.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain("user:a", title, "Step")}}); err != nil {
			t.Fatalf("SaveChains = %v, want nil", err)
		}
		mistyped := title[:5] + title[6:]
		hits, err := two.Search(t.Context(), library.Query{Text: mistyped, Spaces: []string{"user:a"}, Limit: 9})
		if err != nil || len(hits) == 0 || hits[0].Chain.Title != title {
			t.Errorf("Search(%q) after %d = %v, %v, want %q", mistyped, i+1, hits, err, title)
		}
	}
}
