package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// writeBack writes the drivers of the snapshot to disk, and returns warnings about what
// a restart would do differently.
func (c *Current) writeBack(s *snapshot, r Report) []string {
	var warnings []string
	if r.Tree == Changed || r.Rules == Changed || r.Settings == Changed || configured(r) {
		warnings = append(warnings, "the configuration and tree files were not changed: fix them before the next reload or restart, which applies them")
	}
	if s.desired.Drivers.Dev {
		return warnings // nothing is pinned
	}
	if err := writeDrivers(s); err != nil {
		warnings = append(warnings, fmt.Sprintf("the server runs the earlier drivers, but a restart would not: %v", err))
	}
	return warnings
}

// configured reports whether a driver differs in more than its binary.
func configured(r Report) bool {
	for _, c := range r.Changes {
		for _, why := range c.Why {
			if why != "binary" {
				return true
			}
		}
	}
	return false
}

// writeDrivers writes back the binaries that differ from those of the snapshot,
// and then the lock, so that every locked binary exists.
func writeDrivers(s *snapshot) error {
	dir, lock := s.desired.Drivers.Dir, s.set.Lock()
	for _, e := range lock.Drivers {
		sum, ok := e.SHA256[driverhost.Platform()]
		path := filepath.Join(dir, e.File)
		if !ok || sumOf(path) == sum {
			continue
		}
		if err := replaceFile(path, func(w io.Writer) error { return s.set.CopyBinary(e.Name, w) }); err != nil {
			return fmt.Errorf("write %s back: %w", path, err)
		}
	}
	path := filepath.Join(dir, driverhost.LockName)
	if present, err := driverhost.ReadLock(path); err == nil && sameLock(present, lock) {
		return nil
	}
	return driverhost.WriteLock(path, lock)
}

func sameLock(a, b driverhost.Lock) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// sumOf returns the sha256 of a file in hexadecimal, or "" if it cannot be read.
func sumOf(path string) string {
	sum, err := driverhost.SumFile(path)
	if err != nil {
		return ""
	}
	return sum
}

// replaceFile replaces an executable file atomically by a new inode, because the old
// one may be running.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kairos-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	err = write(tmp)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// binaries are the files of the drivers that the configuration pins.
func binaries(cfg driverhost.Config) []string {
	out := make([]string, 0, len(cfg.Lock.Drivers))
	for _, e := range cfg.Lock.Drivers {
		out = append(out, filepath.Join(cfg.Dir, e.File))
	}
	return out
}

// readWhole is the size up to which the bytes of a file are compared. Larger files,
// which are binaries, are compared by size and time.
const readWhole = 1 << 20

// states are the files as they are now, by path.
func states(files []string) map[string]string {
	out := make(map[string]string, len(files))
	for _, path := range files {
		out[path] = state(path)
	}
	return out
}

// differingFiles lists the paths whose states differ, in order.
func differingFiles(a, b map[string]string) []string {
	var out []string
	for path := range b {
		if before, ok := a[path]; !ok || before != b[path] {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

func state(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "absent"
	case err != nil:
		return err.Error()
	case info.IsDir():
		return listing(path)
	case info.Size() > readWhole:
		return stamp(info)
	}
	return sumOf(path)
}

// listing is the state of a folder: the names, sizes and times of its files.
func listing(path string) string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(&b, "%q %s\n", e.Name(), stamp(info))
		}
	}
	return b.String()
}

func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
}
