package sqlite

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// header is at the start of every SQLite file (SQLite file format, section 1.3).
var header = []byte("SQLite format 3\x00")

// check reports whether the file can be used, without creating or changing
// anything, so that a server can refuse to start instead of failing its first
// call. Call it before any other use: it opens the file and closes it again,
// which would drop the locks that SQLite holds on it in this process.
func (d *database) check() error { return d.explain(check(d.path)) }

func check(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return checkParent(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	first := make([]byte, len(header))
	n, err := io.ReadFull(f, first)
	if closeErr := f.Close(); closeErr != nil {
		return closeErr
	}
	if n > 0 && !bytes.Equal(first, header) {
		return errNotDatabase
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// checkParent checks the nearest existing folder: the rest is made when it is
// needed.
func checkParent(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		return checkParent(filepath.Dir(dir))
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return syscall.ENOTDIR
	}
	return mayWrite(dir)
}
