package sqlite

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexPassages makes the index by which steps are found for a vector.
const indexPassages = `CREATE INDEX IF NOT EXISTS steps_passage ON steps (passage)`

// passageSize is how many bytes of the hash of its passage a step has. Vectors have all
// of it.
const passageSize = 16

// embedded returns the hashes of the chain's passages that have a vector.
func embedded(tx *transaction, chain int64) ([]string, error) {
	var hashes []string
	err := tx.rows(`SELECT lower(hex(v.hash)) FROM steps s JOIN vectors v ON substr(v.hash, 1, 16) = s.passage WHERE s.chain = ?`,
		[]any{chain}, func(scan func(...any) error) error {
			var hash string
			err := scan(&hash)
			hashes = append(hashes, hash)
			return err
		})
	return hashes, err
}

// dropVectors removes those of the vectors whose passage no chain has any more.
func dropVectors(tx *transaction, hashes []string) error {
	if len(hashes) == 0 {
		return nil
	}
	return tx.exec(`DELETE FROM vectors WHERE hash IN (SELECT unhex(value) FROM json_each(?))
		AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.passage = substr(vectors.hash, 1, 16))`, list(hashes))
}

// Known implements library.Vectors.
func (p *Protocols) Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error) {
	known := make(map[string][]float32)
	if len(hashes) == 0 {
		return known, ctx.Err()
	}
	err := p.db.rows(ctx, `SELECT lower(hex(v.hash)), v.vector FROM vectors v JOIN vector_models m ON m.key = v.model
		WHERE m.model = ? AND v.hash IN (SELECT unhex(value) FROM json_each(?))`,
		[]any{model, list(hashes)}, func(scan func(...any) error) error {
			var hash string
			var vector []byte
			if err := scan(&hash, &vector); err != nil {
				return err
			}
			known[hash] = wordindex.ParseVector(vector)
			return nil
		})
	return known, err
}

// Missing implements library.Vectors.
func (p *Protocols) Missing(ctx context.Context, model string, limit int) ([]library.Passage, error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	var passages []library.Passage
	err := p.db.rows(ctx, `SELECT s.position, c.outline, t.texts
		FROM (SELECT passage, chain, min(position) AS position FROM steps
			WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN vector_models m ON m.key = v.model
				WHERE substr(v.hash, 1, 16) = passage AND m.model = ?)
			GROUP BY passage LIMIT ?) s
		JOIN chains c ON c.key = s.chain JOIN texts t ON t.chain = s.chain`,
		[]any{model, limit}, func(scan func(...any) error) error {
			var position int
			var row storedChain
			if err := scan(&position, &row.outline, &row.texts); err != nil {
				return err
			}
			c, err := p.db.chain("of a passage", row)
			if err != nil {
				return err
			}
			if position >= len(c.Steps) {
				return p.db.damaged("chain", c.ID, fmt.Errorf("it has no step %d", position+1))
			}
			text := c.Passage(position)
			passages = append(passages, library.Passage{Hash: protocol.PassageHash(text), Text: text})
			return nil
		})
	return passages, err
}

// SaveVectors implements library.Vectors.
func (p *Protocols) SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error {
	if len(vectors) == 0 {
		return ctx.Err()
	}
	length, err := record.CheckVectors(model, vectors)
	if err != nil {
		return err
	}
	return p.db.write(ctx, func(tx *transaction) error {
		key, err := modelKey(tx, model, length)
		if err != nil {
			return err
		}
		for hash, vector := range vectors {
			if err := saveVector(tx, key, hash, vector); err != nil {
				return err
			}
		}
		return nil
	})
}

// saveVector stores a vector whose passage a chain has.
func saveVector(tx *transaction, model int64, hash string, vector []float32) error {
	var key int64
	found, err := tx.row(`INSERT INTO vectors (hash, model, vector) SELECT unhex(?1), ?2, ?3
		WHERE EXISTS (SELECT 1 FROM steps WHERE passage = substr(unhex(?1), 1, 16))
		ON CONFLICT (hash) DO UPDATE SET model = excluded.model, vector = excluded.vector RETURNING key`,
		[]any{hash, model, wordindex.FormatVector(vector)}, &key)
	if err != nil || !found {
		return err
	}
	return tx.exec(`INSERT OR REPLACE INTO vector_signs (vector, model, signs) VALUES (?, ?, ?)`, key, model, wordindex.Signs(vector))
}

// modelKey is the number of a model with vectors of this length.
func modelKey(tx *transaction, model string, length int) (int64, error) {
	var key int64
	found, err := tx.row(`SELECT key FROM vector_models WHERE model = ? AND length = ?`, []any{model, length}, &key)
	if err != nil || found {
		return key, err
	}
	if err := tx.exec(`DELETE FROM vector_models WHERE model = ?`, model); err != nil {
		return 0, err
	}
	if err := tx.exec(indexPassages); err != nil {
		return 0, err
	}
	_, err = tx.row(`INSERT INTO vector_models (model, length) VALUES (?, ?) RETURNING key`, []any{model, length}, &key)
	return key, err
}
