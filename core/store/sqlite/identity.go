package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// openFiles are the database file and the files that SQLite keeps beside it, as
// they were when the database was opened. SQLite keeps these files while a process
// has the database open, so another program has deleted or replaced a file that is
// missing or different: further writes would go to a file that nobody finds again.
type openFiles []openFile

type openFile struct {
	role string // for messages
	path string
	info os.FileInfo
}

// goneError reports a file that was deleted or replaced while it was in use.
type goneError struct {
	role, path string
	replaced   bool
}

func (e *goneError) Error() string {
	what := "deleted or moved"
	if e.replaced {
		what = "replaced by another file"
	}
	return fmt.Sprintf("%s %s was %s while it was in use", e.role, e.path, what)
}

// identify records the files of an open database. SQLite has created them by the
// first read; a database that was copied without its log may have none. The log is
// beside the target of a symbolic link.
func identify(path string) (openFiles, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var files openFiles
	for _, f := range []openFile{
		{role: "the database file", path: path},
		{role: "the write-ahead log", path: real + "-wal"},
		{role: "the index of the write-ahead log", path: real + "-shm"},
	} {
		switch f.info, err = os.Stat(f.path); {
		case err == nil:
			files = append(files, f)
		case f.path == path || !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return files, nil
}

// check reports the first file that is gone. The files are open, so the system
// cannot reuse their inode numbers meanwhile.
func (files openFiles) check() error {
	for _, f := range files {
		now, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return &goneError{role: f.role, path: f.path}
		case err != nil:
			return fmt.Errorf("look at %s: %w", f.role, err)
		case !os.SameFile(f.info, now):
			return &goneError{role: f.role, path: f.path, replaced: true}
		}
	}
	return nil
}

// sameFiles opens connections only while the files are those that were opened
// first: otherwise a later connection would read another database than the earlier
// ones.
type sameFiles struct {
	driver.Connector
	files openFiles
}

// Connect implements driver.Connector.
func (c sameFiles) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, errors.Join(c.files.check(), err)
	}
	if err := c.files.check(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
