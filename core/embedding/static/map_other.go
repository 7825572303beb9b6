//go:build !unix

package static

import (
	"io"
	"os"
)

// mapFile reads the file, because mapping is not supported here.
func mapFile(f *os.File, size int) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(f, b)
	return b, err
}

func unmap([]byte) {}
