package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// reindex makes the search index again if a program of an earlier version made it, and
// indexes what programs of other versions have stored. Each batch is a transaction with
// the lock of protocols, so several servers share the work, and an interrupted rebuild
// continues where it ended.
func (d *database) reindex(ctx context.Context, pool *pgxpool.Pool) error {
	var state wordindex.State
	if err := pool.QueryRow(ctx, wordindex.Unfinished).Scan(&state.Version, &state.Behind); err != nil || state.Complete() {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = transact(ctx, conn.Conn(), func(tx *transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		renewed, err := wordindex.Renew(newIndexWriter(tx))
		if renewed {
			d.log.InfoContext(ctx, "building the search index", "database", d.name, "from", state.Version, "to", search.Version)
		}
		return err
	})
	for done := false; !done && err == nil; {
		err = transact(ctx, conn.Conn(), func(tx *transaction) (err error) {
			if err = lockProtocols(tx); err == nil {
				done, err = wordindex.CatchUp(newIndexWriter(tx))
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("make the search index: %w", err)
	}
	return nil
}

// busyTries and busyPause are for how long CatchUp waits for the lock of protocols. An
// import can hold it for seconds.
const (
	busyTries = 15
	busyPause = 10 * time.Millisecond
)

// CatchUp implements wordindex.Source. It indexes what programs that know only another
// version of the index have stored. While protocols are written it gives up soon.
func (s source) CatchUp(ctx context.Context) error {
	var state wordindex.State
	if err := s.db.row(ctx, searchQueries.State, nil, &state.Version, &state.Behind); err != nil {
		return err
	}
	s.index.Note(state)
	done := state.Complete() || state.Foreign()
	for busy := 0; !done && busy < busyTries; {
		free := false
		err := bounded(ctx, s.db, func(tx *transaction) (err error) {
			var version int
			if free, err = tx.row(`SELECT analyser FROM search_state WHERE only_row = 1 FOR UPDATE SKIP LOCKED`, nil, &version); err == nil && free {
				done, err = wordindex.CatchUp(newIndexWriter(tx))
			}
			return err
		})
		if err != nil {
			return err
		}
		if !free {
			busy++
			time.Sleep(busyPause)
		}
	}
	return nil
}
