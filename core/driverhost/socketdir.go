package driverhost

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	socketDirPrefix = "kairos-drv-"
	// unlockedPrefix names a folder until its lock is held.
	unlockedPrefix = "kairos-new-"
	// maxSocketBase keeps a socket's path under the 104 bytes that every
	// system takes: our folder, go-plugin's and the socket's name add up to 60.
	maxSocketBase = 40
	// unlockedFor is how long a folder may take to be locked.
	unlockedFor = time.Minute
)

// privateFolder is a folder of the host, for sockets or temporary files of drivers,
// made when the first driver starts. A folder has its name only while it is locked, and
// the lock ends with the host's process: a later host removes it after a crash.
type privateFolder struct {
	parent func() string

	mu   sync.Mutex // guards the fields below
	path string
	lock *os.File
}

// make makes the folder if there is none yet and returns its path.
func (b *privateFolder) make() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		return b.path, nil
	}
	parent := b.parent()
	sweepFolders(parent)
	fresh, err := os.MkdirTemp(parent, unlockedPrefix)
	if err != nil {
		return "", fmt.Errorf("make a folder for drivers: %w", err)
	}
	lock, err := lockDir(fresh)
	if err != nil {
		return "", errors.Join(fmt.Errorf("lock the folder for drivers: %w", err), os.Remove(fresh))
	}
	path := filepath.Join(parent, socketDirPrefix+strings.TrimPrefix(filepath.Base(fresh), unlockedPrefix))
	if err := os.Rename(fresh, path); err != nil { // no other folder has the name: it would be locked, too
		return "", errors.Join(fmt.Errorf("name the folder for drivers: %w", err), os.Remove(fresh), lock.Close())
	}
	b.path, b.lock = path, lock
	return path, nil
}

// remove removes the folder if there is one.
func (b *privateFolder) remove() error {
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

// Ways to use a file, as access(2) numbers them.
const (
	searchAccess = 1
	writeAccess  = 2
)

func writable(dir string) bool { return syscall.Access(dir, writeAccess|searchAccess) == nil }

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

// sweepFolders removes the folders of hosts that were killed. A folder that it
// cannot remove belongs to another user or a live host.
func sweepFolders(parent string) {
	folders, err := privateFolders(parent)
	if err != nil {
		return // making a folder there fails as well, and says so
	}
	for _, path := range folders {
		if info, err := os.Lstat(path); err != nil || strings.HasPrefix(filepath.Base(path), unlockedPrefix) && time.Since(info.ModTime()) < unlockedFor {
			continue // its host is about to lock it
		}
		if lock, err := lockDir(path); err == nil {
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}

// privateFolders lists the folders of all hosts of this user, of dead ones too.
func privateFolders(parent string) (paths []string, err error) {
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unlockedPrefix) && !strings.HasPrefix(e.Name(), socketDirPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && ownFolder(info) {
			paths = append(paths, filepath.Join(parent, e.Name()))
		}
	}
	return paths, err
}

// ownFolder reports whether it is a private folder of this user.
func ownFolder(info os.FileInfo) bool {
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Getuid()
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
