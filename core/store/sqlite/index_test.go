package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// indexedFile is a database with more protocols than one batch of the index,
// changed by the statements while nobody has it open.
func indexedFile(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	var changes []library.Change
	for i := range 620 {
		changes = append(changes, library.Change{Chain: storetest.NewChain("user:a", fmt.Sprintf("Protocol walrus%d", i), "Step")})
	}
	if _, err := s.SaveChains(t.Context(), changes); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v, want nil", err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return path
}

func wantFound(t *testing.T, s *sqlite.Store) {
	t.Helper()
	for _, query := range []string{"walrus0", "walrus619", "Protocol walrus333"} {
		hits, err := s.Search(t.Context(), library.Query{Text: query, Spaces: []string{"user:a"}, Limit: 3})
		if err != nil || len(hits) == 0 || !strings.HasSuffix(hits[0].Chain.Title, strings.TrimPrefix(query, "Protocol ")) {
			t.Errorf("Search(%q) = %v, %v, want its protocol first", query, hits, err)
		}
	}
}

func TestAnIndexOfAnotherAnalyserIsMadeAnew(t *testing.T) {
	for name, statements := range map[string][]string{
		"of another version": {`UPDATE search_state SET analyser = 0`, `UPDATE search_documents SET document = x'00'`},
		"half made": {
			`UPDATE search_state SET indexed = 250`,
			`DELETE FROM search_segments`, `DELETE FROM search_blocks`, `DELETE FROM search_documents WHERE chain > 250`,
			`DELETE FROM search_words`, `UPDATE search_state SET analyser = 0`,
		},
		"interrupted after the first batch": {
			`UPDATE search_state SET indexed = 500`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := indexedFile(t, statements...)
			var g errgroup.Group
			for range 3 { // windows of one user that start together
				s := open(t, path)
				defer s.Close()
				g.Go(func() error { wantFound(t, s); return nil })
			}
			_ = g.Wait() // the functions report to t
		})
	}
}

// version15 is what the program left that was the last to store words in the documents
// of the index, with ten protocols of storetest.Library.
const version15 = "testdata/version15.db.gz"

func TestVersion15FindsItsProtocols(t *testing.T) {
	path := unpack(t, version15)
	const size = `SELECT sum(length(document)), (SELECT count(*) FROM chains) FROM search_documents`
	before := raw(t, path, size)[0]
	s := open(t, path)
	defer s.Close()
	for c := range storetest.Library(10, 1) {
		hits, err := s.Search(t.Context(), library.Query{Text: c.Title, Spaces: []string{operator}, Limit: 1, Explain: true})
		if err != nil || len(hits) != 1 || hits[0].Chain.Title != c.Title || hits[0].Score != 1 || len(hits[0].Why) == 0 {
			t.Errorf("Search(%q) = %v, %v, want it with score 1 and a reason", c.Title, hits, err)
		}
	}
	after := raw(t, path, size)[0]
	if bytes, was := after[0].(int64), before[0].(int64); bytes > was/2 || after[1] != before[1] {
		t.Errorf("documents of the index take %d bytes after the update and %d before, want at most half", bytes, was)
	}
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want no damage", damages, err)
	}
}

func TestAnIndexOfANewerAnalyserIsLeftAlone(t *testing.T) {
	path := indexedFile(t, fmt.Sprintf(`UPDATE search_state SET analyser = %d`, search.Version+1))
	s := open(t, path)
	defer s.Close()
	if _, err := s.Count(t.Context(), "user:a"); err == nil || !strings.Contains(err.Error(), "search index") {
		t.Errorf("Count = %v, want an error about the search index", err)
	}
}

func TestARunningProgramDoesNotMixItsWordsIntoANewerIndex(t *testing.T) {
	path := indexedFile(t)
	s := open(t, path)
	defer s.Close()
	wantFound(t, s)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE search_state SET analyser = ?`, search.Version+1); err != nil {
		t.Fatal(err)
	}
	_, err = s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain("user:a", "Another", "Step")}})
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("SaveChains = %v, want an error about the newer version", err)
	}
}

func TestAnotherProcessFindsWhatWasStoredMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	one, two := open(t, path), open(t, path)
	defer one.Close()
	defer two.Close()
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
