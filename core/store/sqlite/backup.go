package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Backup copies the database into a new file, as it is at one moment. Servers may
// write meanwhile. The copy is checked like Integrity does before it gets its name,
// and is on disk when Backup returns. It is a database of its own: an index of this
// one is not taken for its index. Like Integrity, Backup changes nothing here, also
// not the schema of an older version.
func (s *Store) Backup(ctx context.Context, path string) (size int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("back up to %s: it exists, and a backup overwrites nothing; choose another name", path)
	}
	if _, err := os.Stat(s.db.path); err != nil {
		return 0, fmt.Errorf("find the database: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return 0, fmt.Errorf("find %s: %w", path, err)
	}
	partial := path + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the caller chooses it
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("back up to %s: %s exists; if no other backup writes it, one was interrupted, and you can remove it", path, partial)
	}
	if err != nil {
		return 0, fmt.Errorf("back up: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(partial)) }()
	if err := s.db.copyTo(ctx, partial); err != nil {
		return 0, errors.Join(fmt.Errorf("back up to %s: %w", path, err), f.Close())
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("back up to %s: %w", path, err)
	}
	if err := os.Link(partial, path); err != nil { // unlike a rename it replaces nothing
		return 0, fmt.Errorf("name the backup: %w", err)
	}
	return info.Size(), syncDir(filepath.Dir(path))
}

// copyTo writes a checked copy into an empty file.
func (d *database) copyTo(ctx context.Context, path string) (err error) {
	db, err := connect(d.path, nil, url.Values{"mode": {"ro"}})
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if _, err = versionOf(ctx, db); err == nil {
		_, err = db.ExecContext(ctx, `VACUUM INTO ?`, path)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return d.explain(err)
	}
	made := &Store{db: newDatabase(path, Limits{}, tables.Missing{}, d.log)}
	if err := made.db.disown(ctx); err != nil {
		return made.db.explain(err)
	}
	damages, err := made.Integrity(ctx)
	if err == nil && len(damages) > 0 {
		err = fmt.Errorf("the copy is damaged, and most likely the database is, too (%s); look at it with `kairos doctor --deep`", damages[0])
	}
	return err
}

// disown gives a copy an id of its own, so that it does not share an index with the
// database that it was made from.
func (d *database) disown(ctx context.Context) (err error) {
	db, err := connect(d.path, nil, url.Values{"mode": {"rw"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if version, err := versionOf(ctx, db); err != nil || version == 0 {
		return err
	}
	_, err = db.ExecContext(ctx, `BEGIN; UPDATE identity SET id = lower(hex(randomblob(16))), filled = ''; DELETE FROM outbox; COMMIT`)
	return err
}

// syncDir makes the names in a directory survive a power loss. Some file systems
// cannot sync a directory; they do not need it.
func syncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // of a file that the operator named
	if err != nil {
		return err
	}
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, dir.Close())
	}
	return dir.Close()
}
