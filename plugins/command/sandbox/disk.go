package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var errDisk = errors.New("it wrote more to the workspace than it may")

// every is how often the disk is looked at.
const every = 100 * time.Millisecond

// watch ends a command that writes more than it may, also in many files, and in files
// that it has deleted and not closed. It looks at how full the disk is, and counts only
// where that has grown.
func watch(ctx context.Context, end context.CancelCauseFunc, folder string, most int64) (stopped func() <-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	start, unknown := taken(folder)
	go func() {
		defer close(done)
		had, _ := size(folder) // one that is too large to count ends the command below
		tick := time.NewTicker(every)
		defer tick.Stop()
		for limit := start + most; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := taken(folder)
			if err == nil && unknown == nil && now <= limit {
				continue
			} // a disk that does not say how full it is means that the files are counted
			wrote, complete := size(folder)
			if !complete || wrote+unnamed(folder)-had > most || nearlyFull(folder) {
				end(errDisk)
				return
			}
			limit = now + most/4 // somebody else wrote it
		}
	}()
	return func() <-chan struct{} { stop(); return done }
}

// filePrice is what a file costs besides its content, so that empty ones count.
const filePrice = 4 << 10

// taken is how much of the disk is in use.
func taken(folder string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Blocks-fs.Bfree)*int64(fs.Bsize) + int64(fs.Files-fs.Ffree)*filePrice, nil //nolint:unconvert // the types differ between systems
}

// maxCounted bounds how many files are looked at.
const maxCounted = 1 << 20

// size is what the files of a folder take; false: there are too many to count.
func size(folder string) (total int64, complete bool) {
	counted := 0
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone by now, or the command took its own right to read it
		}
		if counted++; counted > maxCounted {
			return fs.SkipAll
		}
		total += filePrice
		if info, err := d.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				total += stat.Blocks * 512
			}
		}
		return nil
	})
	return total, err == nil && counted <= maxCounted
}

// unnamed is what deleted files take that a process of the command still has open. Not
// all processes show their descriptors: nearlyFull is for those.
func unnamed(folder string) (total int64) {
	var own syscall.Stat_t
	if err := syscall.Stat(folder, &own); err != nil {
		return 0
	}
	seen := make(map[uint64]bool)
	mounted := []byte(filepath.Join(filepath.Base(filepath.Dir(folder)), filepath.Base(folder)) + " ")
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, process := range processes {
		if mounts, err := os.ReadFile(process + "/mountinfo"); err != nil || !bytes.Contains(mounts, mounted) {
			continue
		}
		links, _ := filepath.Glob(process + "/fd/*") // as above
		for _, link := range links {
			var st syscall.Stat_t
			if err := syscall.Stat(link, &st); err != nil || st.Dev != own.Dev || st.Nlink > 0 || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			total += st.Blocks * 512
		}
	}
	return total
}

// reserve is how much of a disk, at most, a command must leave to others.
const reserve = 1 << 30

// nearlyFull reports whether less than the reserve, and less than a twentieth of the
// disk, is left.
func nearlyFull(folder string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return false
	}
	total, free := int64(fs.Blocks)*int64(fs.Bsize), int64(fs.Bavail)*int64(fs.Bsize) //nolint:unconvert // the types differ between systems
	return free < min(reserve, total/20)
}

// reachable reports whether an account can reach a path, as far as the modes of the
// folders above it say.
func reachable(path string, uid int) bool {
	if uid == os.Geteuid() {
		return true
	}
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return true
		}
		bit := fs.FileMode(0o001)
		if int(stat.Uid) == uid {
			bit = 0o100
		} else if int(stat.Gid) == uid {
			bit = 0o010
		}
		if info.Mode().Perm()&bit == 0 {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}
