package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, path string) *sqlitetest.Store {
	t.Helper()
	s, err := sqlitetest.Open(path, nil)
	if err != nil {
		t.Fatalf("Open(%s) = %v, want nil", path, err)
	}
	return s
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
