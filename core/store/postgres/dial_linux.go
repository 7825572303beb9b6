package postgres

import (
	"os"

	"golang.org/x/sys/unix"
)

// limitSilence bounds how long sent data may stay unacknowledged.
func limitSilence(socket uintptr) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))) //nolint:gosec // a descriptor fits
}
