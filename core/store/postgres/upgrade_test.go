package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// nextMigration is what a later version of the program may do to the schema: it adds.
const nextMigration = `
	ALTER TABLE runs ADD COLUMN added TEXT NOT NULL DEFAULT 'later';
	ALTER TABLE saves ADD COLUMN added BIGINT;
	ALTER TABLE chains ADD COLUMN added BYTEA NOT NULL DEFAULT '';
	ALTER TABLE steps ADD COLUMN added TEXT NOT NULL DEFAULT '';
	ALTER TABLE versions ADD COLUMN added TEXT;
	ALTER TABLE replicas ADD COLUMN added TEXT NOT NULL DEFAULT '';
	CREATE TABLE added (id TEXT PRIMARY KEY);
	CREATE INDEX runs_added ON runs (added);
	UPDATE kairos_schema SET newest = newest + 1`

func TestVersionsOfTheSchema(t *testing.T) {
	server := postgrestest.Start(t)
	t.Run("one that a later program extended", func(t *testing.T) { usesExtended(t, databaseWithSchema(t, server)) })
	t.Run("one that needs a later program", func(t *testing.T) { refusesIncompatible(t, databaseWithSchema(t, server)) })
	t.Run("an earlier one, for a program that only reads", func(t *testing.T) { keepsOlder(t, databaseWithSchema(t, server)) })
	t.Run("the first one", func(t *testing.T) { extendsFirst(t, server.Database(t)) })
}

// While servers are replaced one by one, this program runs beside a newer one, which has
// changed the schema already.
func usesExtended(t *testing.T, address string) {
	if err := postgrestest.Execute(t.Context(), address, nextMigration); err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	if err := s.Check(); err != nil {
		t.Errorf("Check = %v, want that the schema can be used", err)
	}
	if err := save(s, storetest.NewChain("space", "A heron", "one", "two")); err != nil {
		t.Errorf("save a protocol = %v, want nil", err)
	}
	closeAll(t, s)
	storetest.RunRuns(t, func(t *testing.T) storetest.Runs {
		empty(t, address)
		return open(t, address)
	})
	if os.Getenv("KAIROS_SOAK") != "1" {
		return
	}
	storetest.Run(t, func(t *testing.T) storetest.Store {
		empty(t, address)
		return open(t, address)
	})
}

func keepsOlder(t *testing.T, address string) {
	older := `DROP INDEX runs_open; DROP INDEX runs_of_connection; CREATE INDEX runs_live ON runs (principal) WHERE ended IS NULL;
		UPDATE kairos_schema SET newest = 3`
	if err := postgrestest.Execute(t.Context(), address, older); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.OpenWith(address, postgres.Options{KeepSchema: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refusal changed nothing
		if _, err := s.Count(t.Context(), "any"); err == nil || !strings.Contains(err.Error(), "its schema is version 3, this program needs version 4") {
			t.Errorf("Count = %v, want that the schema is older", err)
		}
	}
	closeAll(t, s)
	s = open(t, address)
	if _, err := s.Count(t.Context(), "any"); err != nil {
		t.Errorf("Count of a program that stores = %v, want nil", err)
	}
	closeAll(t, s)
}

func refusesIncompatible(t *testing.T, address string) {
	if err := postgrestest.Execute(t.Context(), address, `UPDATE kairos_schema SET newest = 99, version = 98`); err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	defer closeAll(t, s)
	_, err := s.Count(t.Context(), "any")
	for call, err := range map[string]error{"Check": s.Check(), "Count": err} {
		if err == nil || !strings.Contains(err.Error(), "newer than this program") {
			t.Errorf("%s = %v, want that the schema is newer than this program", call, err)
		}
	}
}

// A database that the first version of the program made becomes one of this version, and
// can still be used by the first one, which compares the column version with its own.
func extendsFirst(t *testing.T, address string) {
	first, err := os.ReadFile("schema/0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	err = postgrestest.Execute(t.Context(), address, `CREATE TABLE kairos_schema (only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
		version INTEGER NOT NULL, applied BIGINT NOT NULL, checked BIGINT NOT NULL)`,
		`INSERT INTO kairos_schema VALUES (1, 1, 0, 0)`, string(first))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	defer closeAll(t, s)
	if err := s.Check(); err != nil {
		t.Errorf("Check before = %v, want nil", err)
	}
	if all, err := s.Replicas(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("Replicas = %v, %v", all, err)
	}
	err = postgrestest.Execute(t.Context(), address, `DO $$ BEGIN
		IF NOT EXISTS (SELECT 1 FROM kairos_schema WHERE version = 1 AND newest > 1) THEN RAISE EXCEPTION 'the version is wrong'; END IF;
	END $$`)
	if err != nil {
		t.Error(err)
	}
}
