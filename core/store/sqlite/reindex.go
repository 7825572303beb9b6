package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexBatch is how many chains are indexed in one transaction of a rebuild: a
// second or less.
const indexBatch = 500

// reindex rebuilds the index if another version of the analyser made it. The
// caller holds the write lock. Each batch is a transaction, so an interrupted
// rebuild continues where it ended.
func (d *database) reindex(ctx context.Context, conn *sql.Conn) error {
	version, at, err := indexState(ctx, conn)
	if err != nil || version == search.Version && at < 0 {
		return err
	}
	if version > search.Version {
		return fmt.Errorf("its search index is of version %d, this program knows versions up to %d: %w", version, search.Version, errNewer)
	}
	total := 0
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM chains`).Scan(&total); err != nil {
		return err
	}
	if total > 0 {
		d.log.InfoContext(ctx, "building the search index", "path", d.path, "protocols", total, "from", version, "to", search.Version)
	}
	if version != search.Version {
		if err := inTransaction(ctx, conn, clearIndex); err != nil {
			return err
		}
		at = 0
	}
	for at >= 0 {
		err := inTransaction(ctx, conn, func(tx *transaction) (err error) {
			at, err = indexNext(d, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	if total > 0 {
		d.log.InfoContext(ctx, "search index built", "path", d.path)
	}
	return nil
}

func indexState(ctx context.Context, conn *sql.Conn) (version int, at int64, err error) {
	err = conn.QueryRowContext(ctx, `SELECT analyser, indexed FROM search_state`).Scan(&version, &at)
	return version, at, err
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

func clearIndex(tx *transaction) error {
	for _, query := range []string{
		`DELETE FROM search_blocks`, `DELETE FROM search_segments`, `DELETE FROM search_documents`,
		`DELETE FROM search_spaces`, `DELETE FROM search_words`,
	} {
		if err := tx.exec(query); err != nil {
			return err
		}
	}
	return tx.exec(`UPDATE search_state SET analyser = ?, indexed = 0`, search.Version)
}

// indexNext indexes the next chains and returns the last key; -1: all are indexed.
func indexNext(d *database, tx *transaction) (int64, error) {
	var at int64
	if _, err := tx.row(`SELECT indexed FROM search_state`, nil, &at); err != nil || at < 0 {
		return at, err
	}
	var keys []int64
	var spaces []string
	var chains []storedChain
	err := tx.rows(`SELECT key, space, revision, outline, texts FROM chains JOIN texts ON chain = key WHERE key > ? ORDER BY key LIMIT ?`,
		[]any{at, indexBatch}, func(scan func(...any) error) error {
			var key int64
			var space string
			var row storedChain
			err := scan(&key, &space, &row.revision, &row.outline, &row.texts)
			keys, spaces, chains = append(keys, key), append(spaces, space), append(chains, row)
			return err
		})
	if err != nil {
		return 0, err
	}
	index, err := analyseStored(d, keys, chains)
	if err != nil {
		return 0, err
	}
	at = -1
	for _, key := range keys {
		at = key
		// It may have been stored again since the rebuild began.
		if err := wordindex.Remove(newIndexWriter(tx), key); err != nil {
			return 0, err
		}
	}
	for _, a := range wordindex.Additions(spaces, index) {
		if err := a.Insert(newIndexWriter(tx), keys, new(wordindex.KnownWords)); err != nil {
			return 0, err
		}
	}
	return at, tx.exec(`UPDATE search_state SET indexed = ?`, at)
}

func analyseStored(d *database, keys []int64, chains []storedChain) ([]wordindex.Analysed, error) {
	index := make([]wordindex.Analysed, len(chains))
	for i, row := range chains {
		c, err := d.chain(fmt.Sprint(keys[i]), row)
		if err != nil {
			return nil, err
		}
		index[i] = wordindex.Analyse(c)
	}
	return index, nil
}
