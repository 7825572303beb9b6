package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// readers is a pool of read-only connections.
type readers struct {
	db *sql.DB

	mu    sync.Mutex // guards the fields below
	stmts map[string]*sql.Stmt
}

// stmt returns the prepared statement for a query, preparing it only once.
func (r *readers) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stmt, ok := r.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := r.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	r.stmts[query] = stmt
	return stmt, nil
}

func (r *readers) close() error { return r.db.Close() }

// Rows calls each for every row of a query.
func (d *database) Rows(ctx context.Context, query string, args []any, each tables.Each) error {
	f, err := d.use(ctx)
	if err != nil {
		return err
	}
	stmt, err := f.readers.stmt(ctx, query)
	if err != nil {
		return d.explain(err)
	}
	return d.explain(scanAll(ctx, stmt, args, each))
}

// view is a snapshot of the database. It is used by one goroutine.
type view struct {
	ctx   context.Context // of the one call that the view is for
	db    *database
	stmts map[string]*sql.Stmt // by query, of the view's own transaction
}

// view calls look with a snapshot for the queries. All are prepared before a
// connection is taken: preparing needs a connection, too, and views that wait for
// each other's would deadlock.
func (d *database) view(ctx context.Context, queries []string, look func(*view) error) error {
	f, err := d.use(ctx)
	if err != nil {
		return err
	}
	stmts := make(map[string]*sql.Stmt, len(queries))
	for _, query := range queries {
		if stmts[query], err = f.readers.stmt(ctx, query); err != nil {
			return d.explain(err)
		}
	}
	tx, err := f.readers.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return d.explain(err)
	}
	for query, stmt := range stmts {
		stmts[query] = tx.StmtContext(ctx, stmt)
	}
	err = look(&view{ctx: ctx, db: d, stmts: stmts})
	// Nothing was written, so only a failed rollback matters.
	if end := tx.Rollback(); err == nil && !errors.Is(end, sql.ErrTxDone) {
		err = end
	}
	return d.explain(err)
}

func (v *view) rows(query string, args []any, each tables.Each) error {
	return scanAll(v.ctx, v.stmts[query], args, each)
}

func scanAll(ctx context.Context, stmt *sql.Stmt, args []any, each tables.Each) (err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
