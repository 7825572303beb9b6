package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Two servers can use one database, each with a driver of its own. A claim is a file
// by which the drivers of an account know of each other's calls: the process that runs a
// command holds the lock of the file, and the lock ends with the process.
type claim struct{ f *os.File }

// errClaimed is returned for a key that a process has claimed before.
var errClaimed = errors.New("somebody asked what came of this call before it arrived; it is not made any more")

// ended is what a claim says when its command has ended.
const ended = "ended"

// claimKey claims a key, which is possible once.
func claimKey(key string) (*claim, error) {
	dir, err := claims()
	if err != nil {
		return nil, err
	}
	forgetOld(dir)
	f, err := os.OpenFile(claimOf(dir, key), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errClaimed
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // somebody looks at it, and takes it for lost
		return nil, errors.Join(errClaimed, f.Close())
	}
	return &claim{f}, nil
}

// end says that the command has ended, and that its outcome is being recorded.
func (c *claim) end() {
	_, err := c.f.WriteString(ended)
	_ = errors.Join(err, c.f.Close()) // without it the call counts as lost
}

// standing is what became of a call that this process knows nothing of.
type standing int

const (
	lost standing = iota // its process is gone, or it never began; now it never will
	runs                 // another process runs it
	over                 // another process ran it to its end
)

// recordTime is how long a server takes at most to record what its driver told it.
const recordTime = time.Minute

// standingOf looks at a claim, and makes it if there is none, so that a call that is
// still on its way is not made any more.
func standingOf(key string) (_ standing, since time.Duration, err error) {
	dir, err := claims()
	if err != nil {
		return lost, 0, err
	}
	f, err := os.OpenFile(claimOf(dir, key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lost, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return runs, 0, nil
	} else if err != nil {
		return lost, 0, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return lost, 0, err
	}
	return over, time.Since(info.ModTime()), nil
}

func claimOf(dir, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, hex.EncodeToString(sum[:]))
}

// claims is the folder of the account, which nobody else can write to.
func claims() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("kairos-calls-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(owner.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a folder of this account alone; remove it, or set TMPDIR to another folder", dir)
	}
	return dir, nil
}

// claimKept is how long a claim is kept at least: longer than any command runs.
const claimKept = 48 * time.Hour

// forgetOld removes old claims that nobody holds.
func forgetOld(dir string) {
	all, _ := os.ReadDir(dir) // they are kept, then
	for _, d := range all {
		path := filepath.Join(dir, d.Name())
		info, err := d.Info()
		if err != nil || time.Since(info.ModTime()) < claimKept {
			continue
		}
		if f, err := os.Open(path); err == nil {
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				_ = os.Remove(path) // the next one tries again
			}
			_ = f.Close() // it was only read
		}
	}
}
