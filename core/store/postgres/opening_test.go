package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// An update of the index can take longer than a call waits: it is finished even if
// nobody calls again.
func TestTheOpeningOutlivesTheCallThatNeededItFirst(t *testing.T) {
	address := withSchema(t)
	execute := func(statement string) error { return postgrestest.Execute(t.Context(), address, statement) }
	if err := execute(`UPDATE search_state SET analyser = 0, indexed = 0`); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		locked <- execute(`DO $$ BEGIN
			PERFORM 1 FROM search_state FOR UPDATE;
			PERFORM pg_sleep(1.5);
		END $$`)
	}()
	time.Sleep(500 * time.Millisecond) // most likely it has the lock by now; without it the call succeeds
	s := open(t, address)
	defer closeAll(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Count(ctx, "space"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Count while another server has the lock = %v, want that the deadline passed", err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = execute(`DO $$ BEGIN
			IF EXISTS (SELECT 1 FROM search_state WHERE analyser = 0 OR indexed >= 0) THEN RAISE EXCEPTION 'the index is old'; END IF;
		END $$`); err == nil {
			return
		}
	}
	t.Errorf("the index was not made: %v", err)
}
