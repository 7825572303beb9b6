package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

//go:embed schema/0001.sql
var firstSchema string

// migrations lead from each schema version to the next; the first one makes version 1
// of an empty file. A migration is never changed once released.
var migrations = []string{firstSchema}

// applicationID marks the files of this program ("KAIR"). Their user_version is the
// version of the schema.
const applicationID = 0x4b414952

// version is the schema version that this program reads and writes.
func (d *database) version() int { return len(d.migrations) }

// migrate brings the schema from the version in the file to that of the program, in one
// transaction, once there is a backup. The caller holds the write lock.
func (d *database) migrate(ctx context.Context, conn *sql.Conn) error {
	have, err := storedVersion(ctx, conn)
	if err == nil && have > d.version() {
		err = fmt.Errorf("its schema is version %d, this program knows versions up to %d: %w", have, d.version(), errNewer)
	}
	if err == nil && have == 0 {
		err = allowShrinking(ctx, conn)
	}
	if err != nil {
		return err
	}
	// Only now, so that the file of another program stays unchanged.
	if err := useLog(ctx, conn); err != nil || have == d.version() {
		return err
	}
	if have > 0 {
		if err := saveOlder(ctx, d, have); err != nil {
			return err
		}
	}
	if err := inTransaction(ctx, conn, func(tx tables.Transaction) error { return applySchema(conn, tx, d.migrations, have) }); err != nil {
		return err
	}
	d.log.InfoContext(ctx, "database schema updated", "path", d.path, "from", have, "to", d.version())
	return nil
}

// saveOlder copies a database of an earlier schema into a file beside it, because the
// programs of that version cannot use it once it is updated.
func saveOlder(ctx context.Context, d *database, have int) error {
	path := d.path + "." + time.Now().UTC().Format("20060102T150405.000Z") + ".backup"
	if _, err := (&Store{db: d}).Backup(ctx, path); err != nil {
		return fault.Wrap(err, fault.StoreFailed, "database %s: its schema is version %d and has to be updated, but the backup before that failed: %v", d.path, have, err).
			WithHint("make room or remove what is in the way, then start again; nothing was changed")
	}
	d.log.WarnContext(ctx, "the schema of the database is updated: programs of the earlier version cannot use it any more",
		"path", d.path, "from", have, "to", d.version(), "backup", path)
	return nil
}

// inTransaction runs do in a transaction of its own. The context is checked before
// it.
func inTransaction(ctx context.Context, conn *sql.Conn, do func(tables.Transaction) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &transaction{conn: conn, stmts: map[string]*sql.Stmt{}}
	defer func() { err = errors.Join(err, tx.close()) }()
	if err := tx.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Exec("ROLLBACK"))
	}
	return tx.Exec("COMMIT")
}

func applySchema(conn *sql.Conn, tx tables.Transaction, migrations []string, have int) error {
	for i, script := range migrations[have:] {
		if _, err := conn.ExecContext(context.Background(), script); err != nil {
			return fmt.Errorf("apply schema version %d: %w", have+i+1, err)
		}
	}
	if err := tx.Exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
		return err
	}
	return tx.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, len(migrations)))
}

// storedVersion returns the schema version of the file; 0 for an empty file. It
// rejects the files of earlier builds, which had a table of the version, and of other
// programs.
func storedVersion(ctx context.Context, conn *sql.Conn) (version int, err error) {
	var application, tables, ours int
	var earlier bool
	err = conn.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema),
		(SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('chains', 'steps', 'versions', 'ratings', 'pins', 'runs', 'saves', 'acceptances')),
		EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'schema_version')
		FROM pragma_application_id, pragma_user_version`).Scan(&application, &version, &tables, &ours, &earlier)
	switch {
	case err != nil:
		return 0, err
	case application == applicationID && version > 0 && ours == 8:
		return version, nil
	case earlier:
		return 0, errEarlier
	case tables > 0 || application != 0 || version != 0:
		return 0, errForeign
	}
	return 0, nil
}

// useLog makes the write-ahead log a property of the file. VACUUM INTO makes copies
// without it.
func useLog(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return errors.Join(fmt.Errorf("journal mode is %q", mode), errNoLog)
	}
	return nil
}
