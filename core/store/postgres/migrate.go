package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

//go:embed schema/0001.sql
var firstSchema string

// migrations lead from each schema version to the next; the first one makes version 1
// of an empty database. A migration is never changed once released. It only adds, and a
// new column has a default: servers of the earlier version run on while they are replaced.
var migrations = []string{firstSchema}

// version is the schema version that this program reads and writes.
func (d *database) version() int { return len(d.migrations) }

// storedVersion returns the schema version of the database; 0: it has no schema yet. It
// is an error if this program cannot use it.
func storedVersion(ctx context.Context, d *database, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (have int, err error) {
	err = q.QueryRow(ctx, `SELECT version FROM kairos WHERE only_row = 1`).Scan(&have)
	if errors.Is(err, pgx.ErrNoRows) || refusedWith(err, "42P01") { // no such table
		// Earlier builds had a table of the version, too.
		var earlier bool
		err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.tables
			WHERE table_schema = current_schema() AND table_name = 'kairos_schema')`).Scan(&earlier)
		if earlier {
			err = errEarlier
		}
	}
	if err == nil && have > d.version() {
		err = fmt.Errorf("its schema is version %d, this program knows versions up to %d: %w", have, d.version(), errNewer)
	}
	return have, err
}

// refusedWith reports whether the server refused a statement with the code.
func refusedWith(err error, code string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == code
}

// migrate brings the schema up to the version of the program, in one transaction.
// Servers that start together wait for the lock of its row and do it once.
func migrate(ctx context.Context, d *database, pool *pgxpool.Pool) error {
	have, err := storedVersion(ctx, d, pool)
	if err != nil || have == d.version() {
		return err
	}
	if have == 0 && d.missing.Refuse != nil {
		return d.missing.Refuse()
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := createVersion(ctx, conn.Conn()); err != nil {
		return err
	}
	made := false
	err = transact(ctx, conn.Conn(), func(tx tables.Transaction) error {
		if _, err := tx.Row(`SELECT version FROM kairos WHERE only_row = 1 FOR UPDATE`, nil, &have); err != nil {
			return err
		}
		if have >= d.version() {
			return nil // another server was faster
		}
		made = have == 0
		for i, script := range d.migrations[have:] {
			// Several statements in one call: only the simple protocol takes them.
			if err := tx.Exec(script, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("apply schema version %d: %w", have+i+1, err)
			}
		}
		d.log.InfoContext(ctx, "database schema updated", "database", d.name, "from", have, "to", d.version())
		return tx.Exec(`UPDATE kairos SET version = $1, applied = $2 WHERE only_row = 1`, d.version(), time.Now().UnixNano())
	})
	d.missing.Report(made && err == nil)
	return err
}

// createVersion makes the table of the version. Of several servers that do it at once
// PostgreSQL lets one win and fails the others.
func createVersion(ctx context.Context, conn *pgx.Conn) error {
	const attempts = 3
	var err error
	for range attempts {
		_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS kairos (
			only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
			version INTEGER NOT NULL, applied BIGINT NOT NULL, checked BIGINT NOT NULL)`)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !slices.Contains([]string{"23505", "42P07", "42710"}, refused.Code) {
			break
		}
	}
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO kairos (only_row, version, applied, checked) VALUES (1, 0, 0, 0) ON CONFLICT (only_row) DO NOTHING`)
	return err
}
