package drivers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

// A folder whose name looks like a pattern was searched by that pattern, so that nothing
// was found in it and nothing was wrong.
func TestBinariesThatAreNotLockedAreNamedWhateverTheFolderIsCalled(t *testing.T) {
	for _, name := range []string{"drivers", "drivers[1]", "drivers[", "dri*vers?", `dri\vers`} {
		t.Run(name, func(t *testing.T) {
			var c config.Config
			c.Drivers.Dir = filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(c.Drivers.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.Drivers.Dir, driverhost.BinaryPrefix+"stray"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := notLocked(c, driverhost.Lock{}); len(got) != 1 || !strings.Contains(got[0], "stray is not locked") {
				t.Errorf("notLocked = %q, want the stray binary", got)
			}
		})
	}
	var gone config.Config
	gone.Drivers.Dir = filepath.Join(t.TempDir(), "nowhere")
	if got := notLocked(gone, driverhost.Lock{}); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("notLocked of a folder that is not there = %q, want it said", got)
	}
}
