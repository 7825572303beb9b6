package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
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
	stored := make([][]byte, len(hashes))
	for i, hash := range hashes {
		stored[i] = record.FormatVector(vectors[hash])
	}
	return p.db.Write(ctx, func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		model, err := tables.ModelKey(tx, model, length)
		if err != nil {
			return err
		}
		// Vectors whose passage no chain has are left out.
		if err := tx.Exec(`INSERT INTO vectors (hash, model, vector)
			SELECT hash, $3, vector FROM unnest($1::bytea[], $2::bytea[]) AS given (hash, vector)
			WHERE EXISTS (SELECT 1 FROM steps s WHERE s.passage = given.hash)
			ON CONFLICT (hash) DO UPDATE SET model = excluded.model, vector = excluded.vector`, rawHashes(hashes), stored, model); err != nil {
			return err
		}
		if err := tables.Touch(tx, `SELECT chain FROM steps WHERE passage = ANY($1::bytea[])`, rawHashes(hashes)); err != nil {
			return err
		}
		return mark(tx, true, chainsOfHash, rawHashes(hashes))
	})
}
