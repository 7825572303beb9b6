package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
)

// Drivers make their sockets in the folder for temporary files. Where that is the
// drivers folder or the folder of the database, only the files in it are hidden.
func TestAFolderThatHasToStayOpenIsNotCovered(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "drivers.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := sandbox.Hidden{Shielded: []string{lock}, ReadOnly: []string{dir}}
	whole := []sandbox.Cover{{Path: dir, ReadOnly: true}, {Path: lock}}
	if diff := cmp.Diff(whole, h.Covers()); diff != "" {
		t.Errorf("covers of a folder of the server's own (-want +got):\n%s", diff)
	}
	for _, open := range []string{dir, filepath.Join(dir, "sockets")} {
		h.Open = []string{open}
		if diff := cmp.Diff([]sandbox.Cover{{Path: lock}}, h.Covers()); diff != "" {
			t.Errorf("covers with %s open (-want +got):\n%s", open, diff)
		}
	}
}
