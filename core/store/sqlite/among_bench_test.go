package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// BenchmarkSaveAmong is a run of eight saves, each with what the next call reads
// before it, in a database with many ended runs.
func BenchmarkSaveAmong(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			if n > 1000 && testing.Short() {
				b.Skip("-short: making the database takes minutes")
			}
			path := filepath.Join(b.TempDir(), "kairos.db")
			c := storetest.NewChain("user:bench", "Bench", "One")
			manyRuns(b, path, n)
			s := open(b, path)
			defer s.Close()
			var r run.Run
			each(b, func() error {
				if r.Revision == 0 || r.Revision == 8 {
					r = storetest.NewRun("bench", c)
					if err := s.CreateRun(b.Context(), runs.Save{Run: r}, c); err != nil {
						return err
					}
					r.Revision = 1
				}
				if got, err := s.RunUnless(b.Context(), r); err != nil || got.Changed {
					return fmt.Errorf("RunUnless = %t, %w, want it unchanged", got.Changed, err)
				}
				ev := run.Event{Kind: run.Accepted, Run: r.ID, Evidence: &run.Evidence{Output: noise(500)}}
				err := s.SaveRun(b.Context(), runs.Save{Run: r, Events: []run.Event{ev}})
				r.Revision++
				return err
			})
		})
	}
}

// manyRuns makes a database with ended runs, the copies of one.
func manyRuns(b *testing.B, path string, n int) {
	b.Helper()
	s := open(b, path)
	c := storetest.NewChain("user:bench", "Bench", "One")
	r := storetest.NewRun("bench", c)
	if err := s.CreateRun(b.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Needed}}}, c); err != nil {
		b.Fatal(err)
	}
	r.Revision, r.State = 1, run.Ended
	if err := s.SaveRun(b.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Abandoned}}}); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	script(b, path, fmt.Sprintf(`PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
		CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n;
		INSERT INTO runs (id, revision, principal, chain_id, title, connection, pin, state, live, step_index, step_count, created, updated, document)
			SELECT printf('01900000-0000-7000-8000-%%012x', i), revision, principal, chain_id, title, connection, pin, state, live, step_index, step_count, created + i, updated + i, document
			FROM n, (SELECT * FROM runs LIMIT 1);
		INSERT INTO saves SELECT (number << 20) + (s.id & 1048575), replies, s.document FROM runs CROSS JOIN (SELECT * FROM saves LIMIT 2) s WHERE number > 1`, n-1))
}
