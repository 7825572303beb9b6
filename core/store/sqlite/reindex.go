package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// reindex makes the search index again if a program of an earlier version made it, and
// indexes what programs of other versions have stored. The caller holds the write lock.
// Each batch is a transaction, so an interrupted rebuild continues where it ended.
func (d *database) reindex(ctx context.Context, conn *sql.Conn) error {
	var state wordindex.State
	if err := conn.QueryRowContext(ctx, wordindex.Unfinished).Scan(&state.Version, &state.Behind); err != nil || state.Complete() {
		return err
	}
	total := 0
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM chains`).Scan(&total); err != nil {
		return err
	}
	renewed := false
	err := inTransaction(ctx, conn, func(tx *transaction) (err error) {
		renewed, err = wordindex.Renew(newIndexWriter(tx))
		return err
	})
	if renewed && total > 0 {
		d.log.InfoContext(ctx, "building the search index", "path", d.path, "protocols", total, "from", state.Version, "to", search.Version)
	}
	for done := false; !done && err == nil; {
		err = inTransaction(ctx, conn, func(tx *transaction) (err error) {
			done, err = wordindex.CatchUp(newIndexWriter(tx))
			return err
		})
	}
	if err == nil && renewed && total > 0 {
		d.log.InfoContext(ctx, "search index built", "path", d.path)
	}
	return err
}

// CatchUp implements wordindex.Source. It indexes what programs that know only another
// version of the index have stored.
func (s source) CatchUp(ctx context.Context) error {
	var state wordindex.State
	if err := s.db.row(ctx, searchQueries.State, nil, &state.Version, &state.Behind); err != nil {
		return err
	}
	s.index.Note(state)
	for done := state.Complete() || state.Foreign(); !done; {
		err := s.db.write(ctx, func(tx *transaction) (err error) {
			done, err = wordindex.CatchUp(newIndexWriter(tx))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTransaction runs do in a transaction of its own. The context is checked before
// it.
func inTransaction(ctx context.Context, conn *sql.Conn, do func(*transaction) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &transaction{conn: conn, stmts: map[string]*sql.Stmt{}}
	defer func() { err = errors.Join(err, tx.close()) }()
	if err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.exec("ROLLBACK"))
	}
	return tx.exec("COMMIT")
}
