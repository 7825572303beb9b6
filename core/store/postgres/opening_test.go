package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// To make the index again can take longer than a call waits: it is finished even if
// nobody calls again.
func TestTheOpeningOutlivesTheCallThatNeededItFirst(t *testing.T) {
	address := withSchema(t)
	execute(t, address, `UPDATE search_state SET analyser = 0`)
	locked := make(chan error, 1)
	go func() {
		locked <- postgrestest.Execute(t.Context(), address, `DO $$ BEGIN
			PERFORM 1 FROM search_state FOR UPDATE;
			PERFORM pg_advisory_lock(1);
			PERFORM pg_sleep(1.5);
		END $$`)
	}()
	eventually(t, "another server to have the lock", address, `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted`)
	s := open(t, address)
	defer closeAll(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Count(ctx, "space"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Count while another server has the lock = %v, want that the deadline passed", err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the index to be made", address, `SELECT 1 FROM search_state WHERE analyser > 0`)
}

// eventually waits until a query returns a row.
func eventually(t *testing.T, what, address, query string) {
	t.Helper()
	wait := `DO $$ BEGIN IF NOT EXISTS (` + query + `) THEN RAISE EXCEPTION 'not yet'; END IF; END $$`
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = postgrestest.Execute(t.Context(), address, wait); err == nil {
			return
		}
	}
	t.Fatalf("waiting for %s: %v", what, err)
}
