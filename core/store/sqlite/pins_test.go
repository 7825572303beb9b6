package sqlite_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// TestAPinThatIsGoneIsStoredAgain: that this process has stored it does not mean that
// it is there.
func TestAPinThatIsGoneIsStoredAgain(t *testing.T) {
	s, path := fresh(t)
	c := storetest.NewChain("user:test", "Pinned", "One")
	for range 2 {
		first, second := storetest.NewRun("somebody", c), storetest.NewRun("somebody", c)
		must(t, s.CreateRun(t.Context(), runs.Save{Run: first}, c))
		if err := s.CreateRun(t.Context(), runs.Save{Run: first}, c); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("CreateRun(the same run again) = %v, want a conflict", err)
		}
		script(t, path, `DELETE FROM pins`)
		must(t, s.CreateRun(t.Context(), runs.Save{Run: second}, c))
		if pinned, err := s.Pinned(t.Context(), second.Pin); err != nil || pinned.Title != c.Title {
			t.Errorf("Pinned = %q, %v, want the protocol of the run", pinned.Title, err)
		}
	}
}
