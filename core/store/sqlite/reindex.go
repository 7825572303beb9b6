package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// reindex makes the search index again if a program of another version made it. The
// caller holds the write lock.
func (d *database) reindex(ctx context.Context, conn *sql.Conn) error {
	return inTransaction(ctx, conn, func(tx tables.Transaction) error {
		began := time.Now()
		rebuilt, err := wordindex.Rebuild(newIndexWriter(tx))
		if rebuilt {
			d.log.InfoContext(ctx, "search index built", "path", d.path, "version", search.Version, "took", time.Since(began))
		}
		return err
	})
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
