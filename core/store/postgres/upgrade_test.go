package postgres_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func execute(t *testing.T, address, statement string) {
	t.Helper()
	must(t, postgrestest.Execute(t.Context(), address, statement))
}

func openLater(t *testing.T, address string, more ...string) *store {
	t.Helper()
	s, err := postgres.OpenMigrated(address, more...)
	return opened(t, s, err)
}

func TestVersionsOfTheSchema(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.RunUpgrade(t, func(t *testing.T) storetest.Versioned {
		address := server.Database(t)
		return storetest.Versioned{
			Open:    func(t *testing.T, more ...string) storetest.Protocols { return openLater(t, address, more...) },
			Predate: func(t *testing.T) { execute(t, address, `ALTER TABLE kairos RENAME TO kairos_schema`) },
		}
	})
}

// later is what a later version of the program may do to the schema: it adds.
const later = `
	ALTER TABLE runs ADD COLUMN added TEXT NOT NULL DEFAULT 'later';
	ALTER TABLE saves ADD COLUMN added BIGINT;
	ALTER TABLE chains ADD COLUMN added BYTEA NOT NULL DEFAULT '';
	ALTER TABLE steps ADD COLUMN added TEXT NOT NULL DEFAULT '';
	ALTER TABLE versions ADD COLUMN added TEXT;
	CREATE TABLE added (id TEXT PRIMARY KEY);
	CREATE INDEX runs_added ON runs (added)`

// While servers are replaced one by one, this program still runs beside a newer one, which
// has changed the schema already.
func TestThisProgramRunsOnAfterAnUpgrade(t *testing.T) {
	address := withSchema(t)
	s := open(t, address)
	if _, err := s.Count(t.Context(), "any"); err != nil {
		t.Fatal(err)
	}
	newer := openLater(t, address, later)
	if _, err := newer.Count(t.Context(), "any"); err != nil {
		t.Fatal(err)
	}
	closeAll(t, newer)
	if err := save(s, storetest.NewChain("space", "A heron", "one", "two")); err != nil {
		t.Errorf("save a protocol = %v, want nil", err)
	}
}
