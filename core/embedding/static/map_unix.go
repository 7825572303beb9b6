//go:build unix

package static

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// unmap cannot fail for what mapFile returned.
func unmap(b []byte) { _ = unix.Munmap(b) }
