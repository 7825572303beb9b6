package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexBatch is how many chains are indexed in one transaction of a rebuild: a second
// or less.
const indexBatch = 500

// reindex rebuilds the index if another version of the analyser made it. Each batch
// is a transaction with the lock of protocols, so several servers share the work, and
// an interrupted rebuild continues where it ended.
func (d *database) reindex(ctx context.Context, pool *pgxpool.Pool) error {
	var version int
	var at int64
	if err := pool.QueryRow(ctx, `SELECT analyser, indexed FROM search_state`).Scan(&version, &at); err != nil {
		return err
	}
	if version == search.Version && at < 0 {
		return nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	d.log.InfoContext(ctx, "building the search index", "database", d.name, "from", version, "to", search.Version)
	for done := false; !done; {
		err := transact(ctx, conn.Conn(), func(tx *transaction) (err error) {
			done, err = indexNext(d, tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("make the search index: %w", err)
		}
	}
	return nil
}

// indexNext indexes the next chains and reports whether all are indexed.
func indexNext(d *database, tx *transaction) (done bool, err error) {
	var version int
	var at int64
	if _, err := tx.row(`SELECT analyser, indexed FROM search_state WHERE only_row = 1 FOR UPDATE`, nil, &version, &at); err != nil {
		return false, err
	}
	switch {
	case version > search.Version:
		return false, fmt.Errorf("its search index is of version %d, this program knows versions up to %d: %w", version, search.Version, errNewer)
	case version < search.Version:
		at = 0
		if err := clearIndex(tx); err != nil {
			return false, err
		}
	case at < 0:
		return true, nil // another server was faster
	}
	var keys []int64
	var spaces []string
	var index []wordindex.Analysed
	err = tx.rows(`SELECT key, space, revision, outline, texts FROM chains WHERE key > $1 ORDER BY key LIMIT $2`,
		[]any{at, indexBatch}, func(scan func(...any) error) error {
			var key int64
			var space string
			var row storedChain
			if err := scan(&key, &space, &row.revision, &row.outline, &row.texts); err != nil {
				return err
			}
			c, err := d.chain(fmt.Sprint(key), row)
			if err != nil {
				return err
			}
			keys, spaces, index = append(keys, key), append(spaces, space), append(index, wordindex.Analyse(c))
			return nil
		})
	if err != nil {
		return false, err
	}
	w := newIndexWriter(tx)
	at = -1
	for _, key := range keys {
		at = key
		// It may have been stored again since the rebuild began.
		if err := wordindex.Remove(w, key); err != nil {
			return false, err
		}
	}
	for _, a := range wordindex.Additions(spaces, index) {
		if err := a.Insert(w, keys, new(wordindex.KnownWords)); err != nil {
			return false, err
		}
	}
	return at < 0, tx.exec(`UPDATE search_state SET indexed = $1`, at)
}

func clearIndex(tx *transaction) error {
	for _, table := range []string{"search_blocks", "search_segments", "search_documents", "search_spaces", "search_words"} {
		if err := tx.exec(`DELETE FROM ` + table); err != nil {
			return err
		}
	}
	return tx.exec(`UPDATE search_state SET analyser = $1, indexed = 0`, search.Version)
}
