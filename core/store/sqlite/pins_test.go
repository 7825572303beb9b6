package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// TestAPinThatIsGoneIsStoredAgain: that this process has stored it does not mean that
// it is there.
func TestAPinThatIsGoneIsStoredAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	defer s.Close()
	c := storetest.NewChain("user:test", "Pinned", "One")
	for range 2 {
		first, second := storetest.NewRun("somebody", c), storetest.NewRun("somebody", c)
		if err := s.CreateRun(t.Context(), runs.Save{Run: first}, c); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateRun(t.Context(), runs.Save{Run: first}, c); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("CreateRun(the same run again) = %v, want a conflict", err)
		}
		script(t, path, `DELETE FROM pins`)
		if err := s.CreateRun(t.Context(), runs.Save{Run: second}, c); err != nil {
			t.Fatal(err)
		}
		if pinned, err := s.Pinned(t.Context(), second.Pin); err != nil || pinned.Title != c.Title {
			t.Errorf("Pinned = %q, %v, want the protocol of the run", pinned.Title, err)
		}
	}
}
