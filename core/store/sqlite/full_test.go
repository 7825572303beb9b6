//go:build linux

package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// smallDisk mounts a file system of a few megabytes. Where the test may not
// mount one it says so and is skipped.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		t.Skipf("NOT TESTED: a full disk. Mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("Unmount = %v", err)
		}
	})
	return dir
}

// occupy fills the disk but for some bytes, and returns how to make room again.
func occupy(t *testing.T, dir string, leave int64) (release func()) {
	t.Helper()
	var stat unix.Statfs_t
	must(t, unix.Statfs(dir, &stat))
	free := int64(stat.Bavail) * stat.Bsize
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	must(t, err)
	must(t, unix.Fallocate(int(f.Fd()), 0, 0, free-leave))
	must(t, f.Close())
	return func() {
		must(t, os.Remove(path))
	}
}

func TestFullDiskStoresNothingHalf(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "kairos.db")
	s := open(t, path)
	kept := storetest.NewChain("user:test", "Kept", "Zebra", "Two")
	must(t, save(s, kept))
	kept.Revision = 1
	release := occupy(t, dir, 256<<10)
	stored, failed := fillUp(t, s, path)
	t.Logf("%d protocols fitted", stored)

	// Reads still work, and nothing of the refused save is stored.
	wantAll(t, s, stored)
	if got, err := s.Chain(t.Context(), []string{"user:test"}, kept.ID); err != nil || got.Revision != 1 {
		t.Errorf("Chain on a full disk = revision %d, %v, want 1, nil", got.Revision, err)
	}
	_, err := s.SaveChains(t.Context(), []library.Change{
		{Chain: kept, Replaces: 1}, {Chain: bulky("Beside it")}, {Chain: bulky("And this")},
	})
	wantFailure(t, err, path, "the disk is full")
	wantAll(t, s, stored)

	release()
	if err := save(s, failed); err != nil {
		t.Errorf("SaveChains with room again = %v, want nil", err)
	}
	wantAll(t, s, stored+1)
	must(t, s.Close())
	again := open(t, path)
	wantAll(t, again, stored+1)
}

// fillUp saves protocols until the disk is full, and returns how many were
// stored and the one that was not.
func fillUp(t *testing.T, s *sqlitetest.Store, path string) (stored int, failed protocol.Chain) {
	t.Helper()
	for stored = range 1000 {
		c := bulky(fmt.Sprintf("Protocol %03d", stored))
		if err := save(s, c); err != nil {
			wantFailure(t, err, path, "the disk is full")
			return stored, c
		}
	}
	t.Fatal("the disk never became full")
	return 0, protocol.Chain{}
}

func TestFullDiskFromTheStart(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "kairos.db")
	s := open(t, path)
	release := occupy(t, dir, 16<<10)
	err := save(s, bulky("Protocol 000"))
	if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, os.ErrPermission) {
		t.Errorf("SaveChains without room = %v, want an error that names the file", err)
	}
	wantFailure(t, err, path, "the disk is full")
	release()
	if err := save(s, bulky("Protocol 000")); err != nil {
		t.Errorf("SaveChains with room = %v, want nil", err)
	}
	wantAll(t, s, 1)
}
