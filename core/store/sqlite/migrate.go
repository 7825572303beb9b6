package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// fillers run after the script of a schema version and do what SQL cannot. Like
// the scripts they see the database in the state of that version.
var fillers = map[int]func(context.Context, *sql.Tx) error{
	2:  hashPassages,
	3:  signVectors,
	9:  splitRuns,
	16: indexPassagesOfVectors,
}

// hashPassages adds to the steps of version 1 the hashes of their passages.
func hashPassages(ctx context.Context, tx *sql.Tx) (err error) {
	update, err := tx.PrepareContext(ctx, `UPDATE steps SET passage = ? WHERE chain = ? AND position = ?`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, update.Close()) }()
	return eachChain(ctx, tx, func(key int64, c protocol.Chain) error {
		for i := range c.Steps {
			if _, err := update.ExecContext(ctx, passageHash(c, i), key, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// signVectors adds to the vectors of version 2 their signs.
func signVectors(ctx context.Context, tx *sql.Tx) error {
	for last := int64(-1); ; {
		var model int64
		var vector []byte
		err := tx.QueryRowContext(ctx, `SELECT key, model, vector FROM vectors WHERE key > ? ORDER BY key LIMIT 1`, last).
			Scan(&last, &model, &vector)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO vector_signs (vector, model, signs) VALUES (?, ?, ?)`,
			last, model, wordindex.Signs(wordindex.ParseVector(vector)))
		if err != nil {
			return err
		}
	}
}

// indexPassagesOfVectors makes the index that is otherwise made with the first vector.
func indexPassagesOfVectors(ctx context.Context, tx *sql.Tx) error {
	var any bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM vector_models)`).Scan(&any); err != nil || !any {
		return err
	}
	_, err := tx.ExecContext(ctx, indexPassages)
	return err
}

// eachChain reads the chains one at a time, so that a large database need not fit
// in memory.
func eachChain(ctx context.Context, tx *sql.Tx, do func(key int64, c protocol.Chain) error) error {
	for last := int64(-1); ; {
		var document []byte
		err := tx.QueryRowContext(ctx, `SELECT key, document FROM chains WHERE key > ? ORDER BY key LIMIT 1`, last).
			Scan(&last, &document)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var c protocol.Chain
		if err := json.Unmarshal(document, &c); err != nil {
			return fmt.Errorf("read protocol %d: %w", last, err)
		}
		if err := do(last, c); err != nil {
			return err
		}
	}
}
