package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/store/record"
)

//go:embed schema/*.sql
var schema embed.FS

// schemaVersion is the version this program makes: the number of the last file in
// schema. A file is never changed once released. It only adds, and a new column has a
// default: programs of earlier versions run beside this one while servers are replaced.
const schemaVersion = 4

// compatibleSince is the oldest schema version whose programs can use the database of
// this one. A file that does more than add raises it to its own number; all servers
// must be stopped for such an upgrade.
const compatibleSince = 1

// schemaState is the schema of a database.
type schemaState struct {
	compatible int // programs that know this version can use it; 0: it has no schema yet
	newest     int // the last version that was applied
}

// storedSchema reads which schema the database has. It is an error if this program
// cannot use it.
func storedSchema(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (s schemaState, err error) {
	err = q.QueryRow(ctx, `SELECT version, greatest(version, newest) FROM kairos_schema WHERE only_row = 1`).Scan(&s.compatible, &s.newest)
	if refusedWith(err, "42703") { // no column newest: it has version 1
		err = q.QueryRow(ctx, `SELECT version, version FROM kairos_schema WHERE only_row = 1`).Scan(&s.compatible, &s.newest)
	}
	if errors.Is(err, pgx.ErrNoRows) || refusedWith(err, "42P01") { // no such table
		return schemaState{}, nil
	}
	if err == nil && s.compatible > schemaVersion {
		err = fmt.Errorf("its schema needs a program that knows version %d, this one knows versions up to %d: %w", s.compatible, schemaVersion, errNewer)
	}
	return s, err
}

// refusedWith reports whether the server refused a statement with the code.
func refusedWith(err error, code string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == code
}

// migrate brings the schema up to schemaVersion, in one transaction. Servers that
// start together wait for the lock of its row and do it once. A newer schema stays, and
// so does an older one in a program that only reads.
func (d *database) migrate(ctx context.Context, pool *pgxpool.Pool) error {
	have, err := storedSchema(ctx, pool)
	if err != nil || have.newest >= schemaVersion {
		return err
	}
	if d.keepSchema && have.newest > 0 {
		return record.OlderSchema(d.name, have.newest, schemaVersion).
			WithHint("start a server of this version, which updates the database; servers of the earlier version can run beside it meanwhile")
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := createVersion(ctx, conn.Conn()); err != nil {
		return err
	}
	return transact(ctx, conn.Conn(), func(tx *transaction) error {
		if _, err := tx.row(`SELECT greatest(version, newest) FROM kairos_schema WHERE only_row = 1 FOR UPDATE`, nil, &have.newest); err != nil {
			return err
		}
		if have.newest >= schemaVersion {
			return nil // another server was faster
		}
		for version := have.newest + 1; version <= schemaVersion; version++ {
			script, err := schema.ReadFile(fmt.Sprintf("schema/%04d.sql", version))
			if err != nil {
				return err
			}
			// Several statements in one call: only the simple protocol takes them.
			if _, err := tx.tx.Exec(ctx, string(script), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("apply schema version %d: %w", version, err)
			}
		}
		d.log.InfoContext(ctx, "database schema updated", "database", d.name, "from", have.newest, "to", schemaVersion)
		return tx.exec(`UPDATE kairos_schema SET version = greatest(version, $1), newest = $2, applied = $3 WHERE only_row = 1`,
			compatibleSince, schemaVersion, time.Now().UnixNano())
	})
}

// createVersion makes the table of the version. Its column version is what programs of
// version 1 compare with their own, so it has the compatible version. Of several servers that do it at once
// PostgreSQL lets one win and fails the others.
func createVersion(ctx context.Context, conn *pgx.Conn) error {
	const attempts = 3
	var err error
	for range attempts {
		_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS kairos_schema (
			only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
			version INTEGER NOT NULL, applied BIGINT NOT NULL, checked BIGINT NOT NULL,
			newest INTEGER NOT NULL DEFAULT 0);
			ALTER TABLE kairos_schema ADD COLUMN IF NOT EXISTS newest INTEGER NOT NULL DEFAULT 0`, pgx.QueryExecModeSimpleProtocol)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && (slices.Contains([]string{"23505", "42P07", "42710", "42701"}, refused.Code)) {
			continue
		}
		break
	}
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO kairos_schema (only_row, version, applied, checked) VALUES (1, 0, 0, 0) ON CONFLICT (only_row) DO NOTHING`)
	return err
}
