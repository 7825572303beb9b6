//go:build !linux

package tty

import "golang.org/x/sys/unix"

// queueOfInput is FREAD, the queue that TIOCFLUSH empties.
const queueOfInput = 1

func discard(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, queueOfInput) }
