package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

func TestAReadEndsWhenTheServerSaysNothing(t *testing.T) {
	address := postgrestest.Start(t).Database(t)
	opened, err := postgres.OpenImpatient(address, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s := parts(opened)
	defer closeAll(t, s)
	id := newRun(t, s)
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	lock, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE runs`); err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context(), id)
	if fault.CodeOf(err) != fault.StoreUnavailable || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Run = %v, want %s that says that the server does not answer", err, fault.StoreUnavailable)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), id); err != nil {
		t.Errorf("Run once the server answers = %v, want nil", err)
	}
}
