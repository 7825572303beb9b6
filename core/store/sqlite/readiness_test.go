package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// steps begins runs and takes a step in each.
func steps(s *sqlitetest.Store, t *testing.T, n int) error {
	t.Helper()
	for i := range n {
		c := storetest.NewChain("user:test", fmt.Sprintf("Protocol %d", i), "One", "Two")
		r := storetest.NewRun("somebody", c)
		if err := s.CreateRun(t.Context(), runs.Save{Run: r}, c); err != nil {
			return err
		}
		r.Revision = 1
		if err := s.SaveRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Run: r.ID}}}); err != nil {
			return err
		}
		if _, err := s.Run(t.Context(), r.ID); err != nil {
			return err
		}
	}
	return nil
}

func TestALostLogIsSeenByReadiness(t *testing.T) {
	for name, left := range map[string]func(size int64) int64{
		"all of it":     func(int64) int64 { return 0 },
		"its last half": func(size int64) int64 { return size / 2 },
		"its last part": func(size int64) int64 { return size - 4096 },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kairos.db")
			s := openLimited(t, path, sqlite.Limits{MinFree: -1})
			must(t, steps(s, t, 40))
			if err := s.CheckWrite(t.Context()); err != nil {
				t.Fatalf("CheckWrite = %v, want nil", err)
			}
			must(t, os.Truncate(path+"-wal", left(sizeOf(t, path+"-wal"))))
			s.ForgetProbe()
			err := s.CheckWrite(t.Context())
			t.Logf("CheckWrite = %v; steps = %v", err, steps(s, t, 1))
			if err == nil {
				t.Error("CheckWrite = nil, want what is wrong")
			}
		})
	}
}
