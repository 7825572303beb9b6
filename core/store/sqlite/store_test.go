package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// open opens a store, which is closed at the end of the test at the latest.
func open(t testing.TB, path string) *sqlitetest.Store {
	t.Helper()
	s, err := sqlite.Open(path, nil)
	return opened(t, s, err)
}

func opened(t testing.TB, s *sqlite.Store, err error) *sqlitetest.Store {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return sqlitetest.Of(s)
}

// fresh opens a new file.
func fresh(t testing.TB) (s *sqlitetest.Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kairos.db")
	return open(t, path), path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save stores chains where none is.
func save(s *sqlitetest.Store, chains ...protocol.Chain) error {
	changes := make([]library.Change, len(chains))
	for i, c := range chains {
		changes[i].Chain = c
	}
	_, err := s.SaveChains(context.Background(), changes)
	return err
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		s := open(t, filepath.Join(t.TempDir(), "new", "kairos.db"))
		return storetest.Store{Protocols: s, Runs: s}
	})
}

func TestOutbox(t *testing.T) {
	storetest.RunOutbox(t, func(t *testing.T) storetest.Indexed {
		return open(t, filepath.Join(t.TempDir(), "kairos.db"))
	})
}
