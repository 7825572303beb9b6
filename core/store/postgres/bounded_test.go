package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/replicas"
)

// A server that stops must not wait for the locks of another one: what it may leave out
// ends with its context, also once the transaction has begun.
func TestWhatMayBeLostEndsWithItsContext(t *testing.T) {
	address := withSchema(t)
	s := open(t, address)
	defer closeAll(t, s)
	if err := s.SaveReplica(t.Context(), replicas.Replica{ID: "one"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	lock, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE replicas, leases, ratings`); err != nil {
		t.Fatal(err)
	}
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
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveReplica(t.Context(), "one"); err != nil {
		t.Errorf("without the lock: %v", err)
	}
}
