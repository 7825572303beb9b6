package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// Known implements library.Vectors.
func (p *Protocols) Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error) {
	known := make(map[string][]float32)
	if len(hashes) == 0 {
		return known, ctx.Err()
	}
	err := p.db.rows(ctx, `SELECT v.hash, v.vector FROM vectors v JOIN vector_models m ON m.key = v.model
		WHERE m.model = $1 AND v.hash = ANY($2)`, []any{model, rawHashes(hashes)}, func(scan func(...any) error) error {
		var hash, vector []byte
		if err := scan(&hash, &vector); err != nil {
			return err
		}
		known[hex.EncodeToString(hash)] = wordindex.ParseVector(vector)
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
	err := p.db.rows(ctx, `SELECT one.passage, one.position, c.outline, c.texts FROM (
			SELECT s.passage, min(s.chain) AS chain, (array_agg(s.position ORDER BY s.chain, s.position))[1] AS position FROM steps s
			WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN vector_models m ON m.key = v.model
				WHERE v.hash = s.passage AND m.model = $1)
			GROUP BY s.passage LIMIT $2) one JOIN chains c ON c.key = one.chain`,
		[]any{model, limit}, func(scan func(...any) error) error {
			var hash []byte
			var position int
			var row storedChain
			if err := scan(&hash, &position, &row.outline, &row.texts); err != nil {
				return err
			}
			c, err := p.db.chain(hex.EncodeToString(hash), row)
			if err != nil {
				return err
			}
			if position >= len(c.Steps) {
				return p.db.damaged("chain", c.ID, fmt.Errorf("it has no step %d", position+1))
			}
			passages = append(passages, library.Passage{Hash: hex.EncodeToString(hash), Text: c.Passage(position)})
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
	hashes := slices.Sorted(maps.Keys(vectors))
	raw, signs := make([][]byte, len(hashes)), make([][]byte, len(hashes))
	for i, hash := range hashes {
		raw[i], signs[i] = wordindex.FormatVector(vectors[hash]), wordindex.Signs(vectors[hash])
	}
	return p.db.write(ctx, func(tx *transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		model, err := modelKey(tx, model, length)
		if err != nil {
			return err
		}
		first, err := numbers(tx, 2*len(hashes))
		if err != nil {
			return err
		}
		// Vectors whose passage no chain has are left out.
		err = tx.exec(`WITH given AS (
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
		return mark(tx, true, chainsOfHash, rawHashes(hashes))
	})
}

// modelKey is the number of a model with vectors of this length.
func modelKey(tx *transaction, model string, length int) (int64, error) {
	var key int64
	found, err := tx.row(`SELECT key FROM vector_models WHERE model = $1 AND length = $2`, []any{model, length}, &key)
	if err != nil || found {
		return key, err
	}
	if key, err = numbers(tx, 1); err != nil {
		return 0, err
	}
	return key, tx.exec(`INSERT INTO vector_models (key, model, length) VALUES ($1, $2, $3)
		ON CONFLICT (model) DO UPDATE SET key = excluded.key, length = excluded.length`, key, model, length)
}
