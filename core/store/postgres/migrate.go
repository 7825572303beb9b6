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
)

//go:embed schema/*.sql
var schema embed.FS

// schemaVersion is the version this program reads and writes: the number of the last
// file in schema. A file is never changed once released, and only adds: the previous
// version of the program runs beside this one while servers are replaced.
const schemaVersion = 1

// storedVersion returns the schema version of the database; 0: it has none yet.
func storedVersion(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version int, err error) {
	err = q.QueryRow(ctx, `SELECT version FROM kairos_schema WHERE only_row = 1`).Scan(&version)
	var refused *pgconn.PgError
	if errors.Is(err, pgx.ErrNoRows) || errors.As(err, &refused) && refused.Code == "42P01" { // no such table
		return 0, nil
	}
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("its schema is version %d, this program knows versions up to %d: %w", version, schemaVersion, errNewer)
	}
	return version, err
}

// migrate brings the schema up to schemaVersion, in one transaction. Servers that
// start together wait for the lock of its row and do it once.
func (d *database) migrate(ctx context.Context, pool *pgxpool.Pool) error {
	have, err := storedVersion(ctx, pool)
	if err != nil || have == schemaVersion {
		return err
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
		if _, err := tx.row(`SELECT version FROM kairos_schema WHERE only_row = 1 FOR UPDATE`, nil, &have); err != nil {
			return err
		}
		if have >= schemaVersion {
			return nil // another server was faster
		}
		for version := have + 1; version <= schemaVersion; version++ {
			script, err := schema.ReadFile(fmt.Sprintf("schema/%04d.sql", version))
			if err != nil {
				return err
			}
			// Several statements in one call: only the simple protocol takes them.
			if _, err := tx.tx.Exec(ctx, string(script), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("apply schema version %d: %w", version, err)
			}
		}
		d.log.InfoContext(ctx, "database schema updated", "database", d.name, "from", have, "to", schemaVersion)
		return tx.exec(`UPDATE kairos_schema SET version = $1, applied = $2 WHERE only_row = 1`, schemaVersion, time.Now().UnixNano())
	})
}

// createVersion makes the table of the version. Of several servers that do it at once
// PostgreSQL lets one win and fails the others.
func createVersion(ctx context.Context, conn *pgx.Conn) error {
	const attempts = 3
	var err error
	for range attempts {
		_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS kairos_schema (
			only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
			version INTEGER NOT NULL, applied BIGINT NOT NULL, checked BIGINT NOT NULL)`)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && (slices.Contains([]string{"23505", "42P07", "42710"}, refused.Code)) {
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
