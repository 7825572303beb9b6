//go:build unix

package handover

import (
	"errors"
	"os"
	"syscall"
)

// nonBlocking opens a pipe without waiting for its other end.
const nonBlocking = syscall.O_NONBLOCK

// tryLock locks the folder unless another process holds the lock.
func tryLock(folder *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

// mayWrite asks the kernel, which also knows read-only file systems.
func mayWrite(dir string) error {
	const write = 2 // W_OK of access(2)
	return syscall.Access(dir, write)
}
