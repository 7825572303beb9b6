package driverhost

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	socketDirPrefix = "kairos-drv-"
	// maxSocketBase keeps a socket's path under the 104 bytes that every
	// system takes: our folder, go-plugin's and the socket's name add up to 60.
	maxSocketBase = 40
	// staleAfter keeps the sweep away from folders that are being made.
	staleAfter = time.Minute
)

// socketBase is the host's private folder for sockets, made when the first
// driver starts. It is locked for as long as the host lives, so that another
// host can tell a folder that a crash has left.
type socketBase struct {
	mu   sync.Mutex // guards the fields below
	path string
	lock *os.File
}

// make makes the folder if there is none yet and returns its path.
func (b *socketBase) make() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		return b.path, nil
	}
	parent := socketParent()
	sweepSockets(parent)
	path, err := os.MkdirTemp(parent, socketDirPrefix)
	if err != nil {
		return "", fmt.Errorf("make a folder for sockets: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return "", errors.Join(fmt.Errorf("lock the folder for sockets: %w", err), os.Remove(path))
	}
	b.path, b.lock = path, lock
	return path, nil
}

// remove removes the folder if there is one.
func (b *socketBase) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(b.path), b.lock.Close())
}

// socketParent is the first folder with a path short enough for sockets.
func socketParent() string {
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && len(dir) <= maxSocketBase && writable(dir) {
			return dir
		}
	}
	return "/tmp"
}

func writable(dir string) bool {
	const writeAndSearch = 3 // W_OK | X_OK
	return syscall.Access(dir, writeAndSearch) == nil
}

// lockDir opens and locks a folder; it fails when somebody else has the lock.
func lockDir(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// sweepSockets removes what hosts that were killed have left behind. It is
// best effort: whatever it cannot remove belongs to somebody else.
func sweepSockets(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, socketDirPrefix+"[0-9]*"))
	for _, path := range left {
		if !stale(path) {
			continue
		}
		if lock, err := lockDir(path); err == nil {
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}

// stale reports whether the folder is one of ours and old enough to be left.
func stale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Getuid() && time.Since(info.ModTime()) > staleAfter
}

// removeSocket removes the folder of one driver's socket, whatever is in it.
func removeSocket(log *slog.Logger, dir string) {
	if dir == "" {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Warn("socket folder not removed", "dir", dir, "error", err)
	}
}
