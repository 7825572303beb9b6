package sandbox

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestACommandLeavesSomeOfTheDiskToOthers(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m,mode=0711"); err != nil {
		t.Skipf("NOT TESTED: a disk that is nearly full. Mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	if nearlyFull(disk) {
		t.Error("an empty disk is nearly full")
	}
	if err := os.WriteFile(filepath.Join(disk, "x"), make([]byte, 15900<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if !nearlyFull(disk) {
		t.Error("a disk with 100 KiB left is not nearly full")
	}
}
