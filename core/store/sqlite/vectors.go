package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// indexPassages makes the index by which steps are found for a vector.
const indexPassages = `CREATE INDEX IF NOT EXISTS steps_passage ON steps (passage)`

// passageSize is how many bytes of the hash of its passage a step has. Vectors have all
// of it.
const passageSize = 16

// embedded adds the hashes of the chain's passages that have a vector.
func embedded(tx tables.Transaction, chain int64, hashes *[]string) error {
	return tx.Rows(`SELECT lower(hex(v.hash)) FROM steps s JOIN vectors v ON substr(v.hash, 1, 16) = s.passage WHERE s.chain = ?`,
		[]any{chain}, func(scan func(...any) error) error {
			var hash string
			err := scan(&hash)
			*hashes = append(*hashes, hash)
			return err
		})
}

// dropVectors removes those of the vectors whose passage no chain has any more.
func dropVectors(tx tables.Transaction, hashes []string) error {
	if len(hashes) == 0 {
		return nil
	}
	return tx.Exec(`DELETE FROM vectors WHERE hash IN (SELECT unhex(value) FROM json_each(?))
		AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.passage = substr(vectors.hash, 1, 16))`, list(hashes))
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
	return p.db.Write(ctx, func(tx tables.Transaction) error {
		if err := tx.Exec(indexPassages); err != nil {
			return err
		}
		key, err := tables.ModelKey(tx, model, length)
		if err != nil {
			return err
		}
		for hash, vector := range vectors {
			if err := saveVector(tx, key, hash, vector); err != nil {
				return err
			}
		}
		return tables.Touch(tx, `SELECT chain FROM json_each($1) h CROSS JOIN steps s ON s.passage = substr(unhex(h.value), 1, 16)`,
			list(slices.Collect(maps.Keys(vectors))))
	})
}

// saveVector stores a vector whose passage a chain has.
func saveVector(tx tables.Transaction, model int64, hash string, vector []float32) error {
	return tx.Exec(`INSERT INTO vectors (hash, model, vector) SELECT unhex(?1), ?2, ?3
		WHERE EXISTS (SELECT 1 FROM steps WHERE passage = substr(unhex(?1), 1, 16))
		ON CONFLICT (hash) DO UPDATE SET model = excluded.model, vector = excluded.vector`, hash, model, record.FormatVector(vector))
}
