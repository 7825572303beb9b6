package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// header is at the start of every SQLite file (SQLite file format, section 1.3).
var header = []byte("SQLite format 3\x00")

// Check reports whether the file can be used, without creating or changing
// anything, so that a server can refuse to start instead of failing its first
// call. Call it before any other use: it opens the file and closes it again,
// which would drop the locks that SQLite holds on it in this process.
func (s *Store) Check() error {
	return s.db.explain(check(s.db.path))
}

func check(path string) error {
	if err := checkRegular(path); err != nil {
		return err
	}
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
	if n == 0 && errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return recognize(context.Background(), path)
}

// checkRegular refuses a pipe or a device: opening a pipe would wait for its other end.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return errNotDatabase
	}
	return nil // any other fault is found when it is opened
}

// recognize refuses the file of an earlier build or of another program, and changes
// nothing. A connection that may write would move a log that a killed process left into
// the database. Any other fault is found and explained when the file is opened for writing.
func recognize(ctx context.Context, path string) error {
	options := url.Values{"mode": {"ro"}}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		options.Set("immutable", "true") // then not even the index of a log is made
	}
	db, err := connect(path, nil, options)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = storedVersion(ctx, conn)
		err = errors.Join(err, conn.Close())
	}
	if err = errors.Join(err, db.Close()); errors.Is(err, errEarlier) || errors.Is(err, errForeign) {
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
