package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

func TestAFolderOfADriverThatDoesNotExistIsNamed(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	for level, refused := range map[string]bool{config.IsolationAuto: true, string(driverhost.LevelNone): false} {
		var c config.Config
		c.Drivers.Isolation = level
		err := there(c, "ask", []string{dir, gone})
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), gone) {
			t.Errorf("%s: %v, refused = %t", level, err, refused)
		}
	}
}
