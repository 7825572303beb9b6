package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	driver "modernc.org/sqlite"
)

// patience is how long a write waits for other processes.
const patience = 10 * time.Second

// logKept is the size in bytes that a long log is cut to when it starts anew: a
// large import makes it long once.
const logKept = 16 << 20

// readConnections is as many reads as a local disk serves at once.
const readConnections = 4

// openFile creates missing files and updates the schema, all under the write lock,
// so that processes which start together do it once.
func (d *database) openFile(ctx context.Context) (_ *file, err error) {
	if d.missing.Refuse != nil && absent(d.path) {
		return nil, d.missing.Refuse()
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, err
	}
	lock := newWriteLock(d.path + lockSuffix)
	if err := lock.acquire(ctx); err != nil {
		return nil, errors.Join(err, lock.close())
	}
	defer func() {
		lock.release()
		if err != nil {
			err = errors.Join(err, lock.close())
		}
	}()
	made, err := create(d.path)
	if err != nil {
		return nil, err
	}
	if err := recognize(ctx, d.path); err != nil {
		return nil, err
	}
	w, err := connectWriter(ctx, d.path, lock)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx, w.conn); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	if w.files, err = identify(d.path); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	r, err := connectReaders(d.path, w.files)
	if err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	d.missing.Report(made)
	return &file{readers: r, writer: w}, nil
}

// absent reports whether there is no database: no file, or an empty one that no other
// process is just making.
func absent(path string) bool {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		_, err = os.Stat(path + lockSuffix)
	}
	return errors.Is(err, fs.ErrNotExist)
}

// create makes an empty file that only its owner can read, unless there is one. It must
// not open an existing file: closing it would drop the locks that SQLite holds on it in
// this process.
func create(path string) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, checkRegular(path)
	}
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	return true, syncDir(filepath.Dir(path))
}

// lockSuffix ends the name of the file that the write lock is on.
const lockSuffix = ".lock"

func connect(path string, files openFiles, options url.Values) (*sql.DB, error) {
	if err := RegisterFunctions(); err != nil {
		return nil, err
	}
	options.Add("_pragma", "busy_timeout("+strconv.FormatInt(patience.Milliseconds(), 10)+")")
	options.Set("_error_rc", "true")
	options.Set("_dqs", "false")
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	connector, err := driver.NewConnector(dsn.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(sameFiles{connector, files}), nil
}

func connectReaders(path string, files openFiles) (*readers, error) {
	db, err := connect(path, files, url.Values{"mode": {"ro"}, "_query_only": {"true"}})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readConnections)
	db.SetMaxIdleConns(readConnections)
	return &readers{db: db, stmts: map[string]*sql.Stmt{}}, nil
}

func connectWriter(ctx context.Context, path string, lock *writeLock) (*writer, error) {
	db, err := connect(path, nil, url.Values{
		"mode":          {"rw"},
		"_txlock":       {"immediate"},
		"_foreign_keys": {"true"},
		"_synchronous":  {"FULL"},
		"_pragma":       {fmt.Sprintf("journal_size_limit(%d)", logKept)},
	})
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newWriter(db, conn, lock), nil
}
