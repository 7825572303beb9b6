package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

// ErrNotRegular is about a FIFO, a socket, a device or a folder.
var ErrNotRegular = errors.New("is not a regular file")

// Opener is os.OpenFile, or that of an os.Root, which follows no link that leads
// out of its folder.
type Opener func(name string, flag int, perm os.FileMode) (*os.File, error)

// Open opens a regular file for reading. It refuses everything else at
// once: opening a FIFO would wait for somebody to write to it.
func Open(open Opener, name string) (*os.File, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, fmt.Errorf("%s %w", name, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", name, ErrNotRegular)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// Read is os.ReadFile for regular files only.
func Read(path string) (b []byte, err error) {
	f, err := Open(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(f)
}

// ReadPrivate is readFile for a secret, which nobody but its owner may be able
// to read.
func ReadPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("other users can read %s (mode %04o); run `chmod 600 %s`, and make a new key if it may have been read",
			path, info.Mode().Perm(), path)
	}
	return Read(path)
}

// ReadAtMost reads up to limit bytes, or until ctx ends: standard input may
// block, and an interrupted command must end all the same. The reading
// goroutine then ends with the program.
func ReadAtMost(ctx context.Context, from io.Reader, limit int64) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(from, limit))
		read <- result{b, err}
	}()
	select {
	case r := <-read:
		return r.b, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
