package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// SaveVectors implements library.Vectors.
func (p *Protocols) SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error {
	if len(vectors) == 0 {
		return ctx.Err()
	}
	length, err := record.CheckVectors(model, vectors)
	if err != nil {
		return err
	}
	hashes := slices.Sorted(maps.Keys(vectors))
	raw, signs := make([][]byte, len(hashes)), make([][]byte, len(hashes))
	for i, hash := range hashes {
		raw[i], signs[i] = wordindex.FormatVector(vectors[hash]), wordindex.Signs(vectors[hash])
	}
	return p.db.Write(ctx, func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		model, err := modelKey(tx, model, length)
		if err != nil {
			return err
		}
		first, err := tables.Numbers(tx, 2*len(hashes))
		if err != nil {
			return err
		}
		// Vectors whose passage no chain has are left out.
		err = tx.Exec(`WITH given AS (
				SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS g (hash, vector, signs, rank)
				WHERE EXISTS (SELECT 1 FROM steps s WHERE s.passage = g.hash)),
			kept AS (
				INSERT INTO vectors (key, hash, model, vector) SELECT $5 + 2 * rank - 2, hash, $4, vector FROM given
				ON CONFLICT (hash) DO UPDATE SET model = excluded.model, vector = excluded.vector RETURNING key, hash)
			INSERT INTO vector_signs (id, vector, model, signs)
			SELECT $5 + 2 * g.rank - 1, k.key, $4, g.signs FROM given g JOIN kept k ON k.hash = g.hash ORDER BY g.rank
			ON CONFLICT (vector) DO UPDATE SET id = excluded.id, model = excluded.model, signs = excluded.signs`,
			rawHashes(hashes), raw, signs, model, first)
		if err != nil {
			return err
		}
		if err := tables.Touch(tx, `SELECT chain FROM steps WHERE passage = ANY($1::bytea[])`, rawHashes(hashes)); err != nil {
			return err
		}
		return mark(tx, true, chainsOfHash, rawHashes(hashes))
	})
}

// modelKey is the number of a model with vectors of this length.
func modelKey(tx tables.Transaction, model string, length int) (int64, error) {
	var key int64
	found, err := tx.Row(`SELECT key FROM vector_models WHERE model = $1 AND length = $2`, []any{model, length}, &key)
	if err != nil || found {
		return key, err
	}
	if key, err = tables.Numbers(tx, 1); err != nil {
		return 0, err
	}
	return key, tx.Exec(`INSERT INTO vector_models (key, model, length) VALUES ($1, $2, $3)
		ON CONFLICT (model) DO UPDATE SET key = excluded.key, length = excluded.length`, key, model, length)
}
