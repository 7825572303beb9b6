//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// tryFlock takes the lock if it is free.
func tryFlock(f *os.File) (taken bool, err error) {
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func waitFlock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func unflock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// mayWrite asks the kernel, which takes read-only file systems and access control
// lists into account.
func mayWrite(dir string) error {
	const write = 2 // W_OK of access(2)
	return syscall.Access(dir, write)
}
