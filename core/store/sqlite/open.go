package sqlite

import (
	"context"
	"database/sql"
	"embed"
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

//go:embed schema/*.sql
var schema embed.FS

// schemaVersion is the version this program reads and writes: the number of
// the last file in schema. A file is never changed once released.
const schemaVersion = 18

// openFile creates missing files and updates the schema, all under the write lock,
// so that processes which start together do it once.
func (d *database) openFile(ctx context.Context) (_ *file, err error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, err
	}
	lock := newWriteLock(d.path + ".lock")
	if err := lock.acquire(ctx); err != nil {
		return nil, errors.Join(err, lock.close())
	}
	defer func() {
		lock.release()
		if err != nil {
			err = errors.Join(err, lock.close())
		}
	}()
	if err := create(d.path); err != nil {
		return nil, err
	}
	w, err := connectWriter(ctx, d.path, lock)
	if err != nil {
		return nil, err
	}
	if err := d.room.limit(ctx, w.conn); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	if err := allowShrinking(ctx, w.conn); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	if err := d.migrate(ctx, w.conn); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	if err := d.reindex(ctx, w.conn); err != nil {
		return nil, errors.Join(fmt.Errorf("make the search index: %w", err), w.disconnect())
	}
	if w.files, err = identify(d.path); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	r, err := connectReaders(d.path, w.files)
	if err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	return &file{readers: r, writer: w}, nil
}

// create makes an empty file that only its owner can read. It must not open an
// existing file: closing it would drop the locks that SQLite holds on it in this
// process.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

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

// migrate brings the schema from the version in the file to schemaVersion, in
// one transaction, once there is a backup. A program that only reads refuses to. The
// caller holds the write lock.
func (d *database) migrate(ctx context.Context, conn *sql.Conn) error {
	have, err := storedVersion(ctx, conn)
	switch {
	case err != nil:
		return err
	case have > schemaVersion:
		return fmt.Errorf("its schema is version %d, this program knows versions up to %d: %w",
			have, schemaVersion, errNewer)
	}
	if err := mayUpgrade(d, have); err != nil {
		return err
	}
	// Only now, so that the file of another program stays unchanged.
	if err := useLog(ctx, conn); err != nil || have == schemaVersion {
		return err
	}
	if have > 0 {
		if err := saveOlder(ctx, d, have); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := applySchema(ctx, tx, have); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	d.log.InfoContext(ctx, "database schema updated", "path", d.path, "from", have, "to", schemaVersion)
	return nil
}

// useLog makes the write-ahead log a property of the file. VACUUM INTO makes copies
// without it.
func useLog(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %q: %w", mode, errNoLog)
	}
	return nil
}

// storedVersion returns the schema version of the file; 0 for an empty file. It
// rejects a file with tables of another program.
func storedVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var tables, ours int
	err := conn.QueryRowContext(ctx,
		`SELECT count(*), count(*) FILTER (WHERE name = 'schema_version') FROM sqlite_schema WHERE type = 'table'`,
	).Scan(&tables, &ours)
	if err != nil || tables == 0 {
		return 0, err
	}
	if ours == 0 {
		return 0, errForeign
	}
	var version int
	err = conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version)
	return version, err
}

func applySchema(ctx context.Context, tx *sql.Tx, have int) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_version (
		version INTEGER PRIMARY KEY, applied INTEGER NOT NULL) STRICT`)
	if err != nil {
		return err
	}
	for version := have + 1; version <= schemaVersion; version++ {
		script, err := schema.ReadFile(fmt.Sprintf("schema/%04d.sql", version))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("apply schema version %d: %w", version, err)
		}
		if fill := fillers[version]; fill != nil {
			if err := fill(ctx, tx); err != nil {
				return fmt.Errorf("apply schema version %d: %w", version, err)
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO schema_version (version, applied) VALUES (?, ?)`,
			version, time.Now().UnixNano())
		if err != nil {
			return err
		}
	}
	return nil
}
