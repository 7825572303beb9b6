package sqlite_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// endedRuns stores runs that have ended, with 20 KB of evidence each.
func endedRuns(t *testing.T, s *sqlitetest.Store, n int) {
	t.Helper()
	c := storetest.NewChain("user:test", "Ended", "One")
	for range n {
		r := storetest.NewRun("somebody", c)
		must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, c))
		r.Revision, r.State = 1, run.Ended
		ev := run.Event{Kind: run.Abandoned, Run: r.ID, Evidence: &run.Evidence{Output: noise(20_000)}}
		must(t, s.SaveRun(t.Context(), runs.Save{Run: r, Events: []run.Event{ev}}))
	}
}

// removeAll removes all ended runs and reclaims their space.
func removeAll(t *testing.T, s *sqlitetest.Store) {
	t.Helper()
	for n := 1; n > 0; {
		var err error
		if n, err = s.RemoveEnded(t.Context(), time.Now().Add(24*time.Hour), 100); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	for more := true; more; calls++ {
		var err error
		if more, err = s.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if calls > 200 {
		t.Errorf("Reclaim has more after %d calls", calls)
	}
}

func TestTheFileShrinksWhenRunsAreRemoved(t *testing.T) {
	s, path := fresh(t)
	endedRuns(t, s, 400)
	live := newRuns(t, s, 1)[0]
	must(t, s.Close())
	full := sizeOf(t, path)

	s = open(t, path)
	before, err := s.Space(t.Context())
	if err != nil || before.Size != full {
		t.Errorf("Space = %+v, %v, want %d bytes that can be given back", before, err, full)
	}
	removeAll(t, s)
	after, err := s.Space(t.Context())
	if err != nil || after.Size > full/4 || after.Free > after.Size {
		t.Errorf("Space after removing the runs = %+v, %v, want less than a quarter of %d", after, err, full)
	}
	if _, err := s.Run(t.Context(), run.ID(live)); err != nil {
		t.Errorf("Run(that is live) = %v, want nil", err)
	}
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want no damage", damages, err)
	}
	must(t, s.Close())
	if size := sizeOf(t, path); size != after.Size {
		t.Errorf("the closed file has %d bytes, want %d", size, after.Size)
	}
}

func TestALongLogBecomesShortAgain(t *testing.T) {
	s, path := fresh(t)
	c := storetest.NewChain("user:test", "Large", "One")
	r := storetest.NewRun("somebody", c)
	must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, c))
	const large, kept = 24 << 20, 17 << 20
	save := func(size int) {
		r.Revision++
		must(t, s.SaveRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Refused, Evidence: &run.Evidence{Output: noise(size)}}}}))
	}
	save(large)
	if size := sizeOf(t, path+"-wal"); size < large {
		t.Fatalf("the log has %d bytes after a save of %d", size, large)
	}
	save(10)
	if size := sizeOf(t, path+"-wal"); size > kept {
		t.Errorf("the log has %d bytes after the next save, want at most %d", size, kept)
	}
}
