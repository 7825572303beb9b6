package driverhost_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// soundDrivers makes a folder of drivers that nobody else can write.
func soundDrivers(t *testing.T) (dir, binary string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dri vers [1]") // neither a word of a shell nor a pattern
	check(t, os.Mkdir(dir, 0o755))
	binary = filepath.Join(dir, "kairos-driver-a")
	check(t, os.WriteFile(binary, []byte("x"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "drivers.lock"), []byte("{}"), 0o644))
	return dir, binary
}

func TestPermissionsThatLetOthersInAreRefused(t *testing.T) {
	set := func(name string, mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) { check(t, os.Chmod(filepath.Join(dir, name), mode)) }
	}
	give := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if os.Getuid() != 0 {
				t.Skip("only root can give files away: ownership is NOT tested")
			}
			check(t, os.Chown(filepath.Join(dir, name), 4711, -1))
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*testing.T, string)
		wants []string // in the error; none: it is sound
	}{
		"sound":                  {func(*testing.T, string) {}, nil},
		"folder of the group":    {set("", 0o775), []string{"the folder ", "its group", "0775", "chmod go-w '"}},
		"folder of all":          {set("", 0o777), []string{"its group and everybody", "0777", "chmod go-w"}},
		"folder with sticky bit": {set("", 0o777|fs.ModeSticky), []string{"everybody"}},
		"lock":                   {set("drivers.lock", 0o664), []string{"drivers.lock", "0664", "chmod go-w"}},
		"binary":                 {set("kairos-driver-a", 0o757), []string{"the file ", "kairos-driver-a", "everybody", "0757"}},
		"stranger's folder":      {give(""), []string{"belongs to user 4711", "chown 0 "}},
		"stranger's binary":      {give("kairos-driver-a"), []string{"kairos-driver-a", "belongs to user 4711"}},
		"stranger's lock":        {give("drivers.lock"), []string{"drivers.lock", "belongs to user 4711"}},
		"everything at once": {func(t *testing.T, dir string) {
			set("", 0o775)(t, dir)
			set("kairos-driver-a", 0o775)(t, dir)
		}, []string{"the folder", "the file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, binary := soundDrivers(t)
			tc.spoil(t, dir)
			err := driverhost.CheckPermissions(dir)
			if len(tc.wants) == 0 {
				if err != nil {
					t.Errorf("CheckPermissions = %v", err)
				}
				if err := driverhost.CheckBinaryPermissions(binary); err != nil {
					t.Errorf("CheckBinaryPermissions = %v", err)
				}
				return
			}
			for _, want := range tc.wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("CheckPermissions = %v, want %q", err, want)
				}
			}
			bad := strings.Contains(name, "folder") || strings.Contains(name, "binary") || name == "everything at once"
			if err := driverhost.CheckBinaryPermissions(binary); (err != nil) != bad {
				t.Errorf("CheckBinaryPermissions = %v", err)
			}
		})
	}
}

func TestPermissionsOfLinksAreThoseOfTheirTargets(t *testing.T) {
	link := func(t *testing.T) (dir, store, target string) {
		dir, binary := soundDrivers(t)
		store = filepath.Join(t.TempDir(), "store")
		check(t, os.Mkdir(store, 0o755))
		target = filepath.Join(store, "a-1.0")
		check(t, os.Rename(binary, target))
		middle := filepath.Join(store, "a")
		check(t, os.Symlink("a-1.0", middle))
		check(t, os.Symlink(middle, binary))
		return dir, store, target
	}
	t.Run("sound", func(t *testing.T) {
		dir, _, _ := link(t)
		check(t, driverhost.CheckPermissions(dir))
		linked := filepath.Join(t.TempDir(), "linked")
		check(t, os.Symlink(dir, linked))
		check(t, driverhost.CheckPermissions(linked))
		check(t, os.Chmod(dir, 0o775))
		if err := driverhost.CheckPermissions(linked); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("of a link to a folder of the group CheckPermissions = %v", err)
		}
	})
	t.Run("target", func(t *testing.T) {
		dir, _, target := link(t)
		check(t, os.Chmod(target, 0o775))
		if err := driverhost.CheckPermissions(dir); err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("CheckPermissions = %v", err)
		}
	})
	t.Run("target's folder", func(t *testing.T) {
		dir, store, _ := link(t)
		check(t, os.Chmod(store, 0o777))
		if err := driverhost.CheckPermissions(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("folder %s can", store)) {
			t.Errorf("CheckPermissions = %v", err)
		}
	})
	t.Run("a circle", func(t *testing.T) {
		dir, binary := soundDrivers(t)
		check(t, os.Remove(binary))
		check(t, os.Symlink(binary, binary))
		if err := driverhost.CheckPermissions(dir); err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("CheckPermissions = %v", err)
		}
	})
}

func TestPermissionsOfAMissingFolderAreNotAnError(t *testing.T) {
	check(t, driverhost.CheckPermissions(filepath.Join(t.TempDir(), "none")))
	check(t, driverhost.CheckPermissions(t.TempDir()))
}
