package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	socketSuffix = ".sock"
	// maxSocketPath is what every system takes, its closing zero not counted.
	maxSocketPath = 103
)

// folderName is the folder of a user's sockets in a runtime folder.
func folderName() string { return "kairos-" + strconv.Itoa(os.Getuid()) }

// DefaultSocket is where a server of this process listens unless told
// otherwise: in XDG_RUNTIME_DIR, else in the temporary folder.
func DefaultSocket() string {
	name := filepath.Join(folderName(), strconv.Itoa(os.Getpid())+socketSuffix)
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(dir); filepath.IsAbs(dir) && err == nil && info.IsDir() && len(path) <= maxSocketPath {
			return path
		}
	}
	return filepath.Join("/tmp", name)
}

// DefaultFolders lists the folders where servers of this user may listen. They
// are more than the one of DefaultSocket, because a server that was started by
// an MCP host may have had another environment than the operator's shell has.
func DefaultFolders() []string {
	bases := []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", strconv.Itoa(os.Getuid())), os.TempDir(), "/tmp"}
	var out []string
	for _, base := range bases {
		dir := filepath.Join(base, folderName())
		if filepath.IsAbs(base) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// In returns the socket of this process for what an operator configured:
// a path that ends in a slash or names a folder gives each server its own
// socket in there, any other path is the socket itself.
func In(configured string) string {
	info, err := os.Stat(configured)
	if strings.HasSuffix(configured, "/") || (err == nil && info.IsDir()) {
		return filepath.Join(configured, strconv.Itoa(os.Getpid())+socketSuffix)
	}
	return configured
}

// CheckSocket says why no server can listen where an operator configured it,
// which is otherwise only in the server's log. A folder that is not there is
// fine: a server makes it.
func CheckSocket(configured string) error {
	socket := In(configured)
	if len(socket) > maxSocketPath {
		return fmt.Errorf("the path %s is longer than the %d bytes a socket may have: set admin.socket to a shorter one", socket, maxSocketPath)
	}
	if err := checkPrivate(filepath.Dir(socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makePrivate makes the folder if it is not there.
func makePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", filepath.Dir(dir), err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	return checkPrivate(dir)
}

// checkPrivate refuses a folder in which anybody else could put a socket.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder, so no socket is made or opened in it", dir)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("the folder %s belongs to user %d, not to you (%d): remove it, or set admin.socket to a path in a folder of your own",
			dir, owner.Uid, os.Getuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the folder %s is open to others (mode %04o): run `chmod 700 %s`, or set admin.socket to a path in a private folder",
			dir, mode, dir)
	}
	return nil
}

// lockFolder keeps other servers from cleaning up while a socket is made: one
// that is bound but does not listen yet looks dead.
func lockFolder(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// socketsAt lists the sockets of a private folder, or is the one that is named.
func socketsAt(place string) ([]string, error) {
	info, err := os.Lstat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().Type() == fs.ModeSocket:
		if err := checkPrivate(filepath.Dir(place)); err != nil {
			return nil, err
		}
		return []string{place}, nil
	}
	return socketsIn(place)
}

// socketsIn lists the sockets of a private folder.
func socketsIn(dir string) ([]string, error) {
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), socketSuffix) && e.Type()&fs.ModeSocket != 0 {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}
