// Package sqlitetest opens SQLite stores for tests, with the methods of all their parts
// in one value.
package sqlitetest

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Store is a store and its parts.
type Store struct {
	*sqlite.Protocols
	*sqlite.Runs
	*sqlite.Archive
	*tables.People
	*tables.Sessions
	*tables.Tokens
	*tables.Logins
	*sqlite.Store
}

// Open is sqlite.Open.
func Open(path string, log *slog.Logger) (*Store, error) {
	s, err := sqlite.Open(path, log)
	if err != nil {
		return nil, err
	}
	return Of(s), nil
}

// New opens a store of the test alone, which is closed with it.
func New(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "kairos.db"), slog.New(slog.DiscardHandler))
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

// Of is a store that is open.
func Of(s *sqlite.Store) *Store {
	return &Store{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Sessions: s.Sessions, Tokens: s.Tokens, Logins: s.Logins, Store: s}
}
