package postgres_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// store is a store and its parts, with the methods of all of them.
type store struct {
	*postgres.Protocols
	*postgres.Runs
	*postgres.Archive
	*tables.People
	*tables.Sessions
	*tables.Tokens
	*tables.Logins
	*postgres.Servers
	*postgres.Store
}

func parts(s *postgres.Store) *store {
	return &store{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Sessions: s.Sessions, Tokens: s.Tokens, Logins: s.Logins, Servers: s.Servers, Store: s}
}

// open opens a store, which is closed at the end of the test at the latest.
func open(t testing.TB, address string) *store {
	t.Helper()
	s, err := postgres.Open(address, nil)
	return opened(t, s, err)
}

func opened(t testing.TB, s *postgres.Store, err error) *store {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return parts(s)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// empty removes all rows of a database with a schema. That takes milliseconds, and a
// new database seconds.
func empty(t *testing.T, address string) {
	t.Helper()
	err := postgrestest.Execute(t.Context(), address, `DO $$
		DECLARE name TEXT;
		BEGIN
			FOR name IN SELECT table_name FROM information_schema.tables
				WHERE table_schema = 'public' AND table_name NOT IN ('kairos', 'library') LOOP
				EXECUTE 'DELETE FROM ' || quote_ident(name);
			END LOOP;
			INSERT INTO identity (only_row, id, filled, marks) VALUES (1, replace(gen_random_uuid()::text, '-', ''), '', 0);
		END $$`)
	must(t, err)
}

// withSchema returns the address of a new database that a store has used.
func withSchema(t *testing.T) string {
	t.Helper()
	return databaseWithSchema(t, postgrestest.Start(t))
}

func databaseWithSchema(t *testing.T, server *postgrestest.Server) string {
	t.Helper()
	address := server.Database(t)
	made := open(t, address)
	if _, err := made.Count(t.Context(), "any"); err != nil {
		t.Fatalf("Count = %v, want nil", err)
	}
	if err := made.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	return address
}

func TestStore(t *testing.T) {
	address := withSchema(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		empty(t, address)
		s := open(t, address)
		return storetest.Store{Protocols: s, Runs: s}
	})
}

func TestOutbox(t *testing.T) {
	address := withSchema(t)
	storetest.RunOutbox(t, func(t *testing.T) storetest.Indexed {
		empty(t, address)
		return open(t, address)
	})
}

// save stores chains where none is.
func save(s *store, chains ...protocol.Chain) error {
	changes := make([]library.Change, len(chains))
	for i, c := range chains {
		changes[i].Chain = c
	}
	_, err := s.SaveChains(context.Background(), changes)
	return err
}
