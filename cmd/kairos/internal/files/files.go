// Package files reads the files that people name, and writes those that hold
// secrets. It refuses what is not a regular file instead of waiting for it.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Absolute is for files that may be named relative to the working folder.
func Absolute(paths ...string) []string {
	var out []string
	for _, p := range paths {
		if p == "" {
			continue
		}
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		out = append(out, p)
	}
	return out
}

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

// MakeKey writes a file with a secret that only its owner reads, unless
// another process was first. The file survives a power loss: what is made with a key
// outlives the process.
func MakeKey(path string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the key file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*.key") // mode 0600
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	// A link fails where a file is already there, so two processes agree on one key.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key file: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a folder survive a power loss. Some file systems cannot
// sync a folder; they do not need it.
func syncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // of the operator
	if err != nil {
		return err
	}
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, dir.Close())
	}
	return dir.Close()
}

// Update replaces the content of a file that only its owner reads, one process at
// a time. The file need not exist; readers see the old content or the new one.
func Update(path string, change func(was []byte) ([]byte, error)) (err error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", path, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	was, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	now, err := change(was)
	if err != nil {
		return err
	}
	if err := Replace(path, now, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Replace writes a file that nobody sees half-written, in the place of one that may be
// there. It survives a power loss.
func Replace(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		return inner.Err // the rest names a file that nobody asked for
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}
