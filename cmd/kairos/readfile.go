package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

// openRegular opens a regular file for reading. It refuses everything else at
// once: opening a FIFO would wait for somebody to write to it.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f); err != nil {
		_ = f.Close() // nothing was read
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return f, nil
}

// openWithin is openRegular for a file of a folder. A link that leads out of the
// folder is an error.
func openWithin(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f); err != nil {
		_ = f.Close() // nothing was read
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return f, nil
}

func checkRegular(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot be examined: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("is not a regular file; commands that take a document read a pipe as -, from standard input")
	}
	return nil
}

// readFile is os.ReadFile for regular files only.
func readFile(path string) (b []byte, err error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(f)
}

// readPrivate is readFile for a secret, which nobody but its owner may be able
// to read.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("other users can read %s (mode %04o); run `chmod 600 %s`, and make a new key if it may have been read",
			path, info.Mode().Perm(), path)
	}
	return readFile(path)
}

// readAtMost reads up to limit bytes, or until ctx ends: standard input may
// block, and an interrupted command must end all the same. The reading
// goroutine then ends with the program.
func readAtMost(ctx context.Context, from io.Reader, limit int64) ([]byte, error) {
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
