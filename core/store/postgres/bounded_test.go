package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// A server that stops must not wait for the locks of another one: what it may leave out
// ends with its context, also once the transaction has begun.
func TestWhatMayBeLostEndsWithItsContext(t *testing.T) {
	address := withSchema(t)
	s := open(t, address)
	must(t, s.SaveReplica(t.Context(), replicas.Replica{ID: "one"}, time.Hour))
	release := lockTables(t, address, "replicas, leases, ratings")
	for name, do := range map[string]func(ctx context.Context) error{
		"a heartbeat": func(ctx context.Context) error { return s.SaveReplica(ctx, replicas.Replica{ID: "one"}, time.Hour) },
		"a farewell":  func(ctx context.Context) error { return s.RemoveReplica(ctx, "one") },
		"a lease":     func(ctx context.Context) error { return s.ReturnLease(ctx, "runs", "one") },
		"a rating": func(ctx context.Context) error {
			return s.Rate(ctx, mine, []library.Rating{{Step: "11111111-1111-4111-8111-111111111111", Outcome: library.OutcomeSuccess}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := do(ctx)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
				t.Errorf("it ended after %s with %v, want soon after its context", took, err)
			}
		})
	}
	release()
	must(t, s.RemoveReplica(t.Context(), "one"))
}

// lockTables locks tables as another server does, until release.
func lockTables(t *testing.T, address, tables string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	lock, err := conn.Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), `LOCK TABLE `+tables)
	must(t, err)
	return func() { must(t, lock.Rollback(t.Context())) }
}

func TestAReadEndsWhenTheServerSaysNothing(t *testing.T) {
	address := postgrestest.Start(t).Database(t)
	impatient, err := postgres.OpenImpatient(address, 300*time.Millisecond)
	s := opened(t, impatient, err)
	id := newRun(t, s)
	release := lockTables(t, address, "runs")
	_, err = s.Run(t.Context(), id)
	if fault.CodeOf(err) != fault.StoreUnavailable || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Run = %v, want %s that says that the server does not answer", err, fault.StoreUnavailable)
	}
	release()
	_, err = s.Run(t.Context(), id)
	must(t, err)
}
