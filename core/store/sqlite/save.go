package sqlite

import (
	"context"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// SaveChains implements library.ProtocolWriter.
func (p *Protocols) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	rows, err := record.Encode(changes, packProtocol)
	if err != nil {
		return nil, err
	}
	err = p.db.Write(ctx, func(tx tables.Transaction) error {
		var dropped []string
		for i := range rows {
			if err := tables.MakeRoom(tx, dialect, &rows[i], remove(tx, &dropped)); err != nil {
				return err
			}
		}
		// Only now, because a step may move from one of the chains to another.
		if err := insertChains(tx, rows); err != nil {
			return err
		}
		return dropVectors(tx, dropped)
	})
	if err != nil {
		return nil, err
	}
	return record.Revisions(rows), nil
}

// DeleteChain implements library.ProtocolWriter.
func (p *Protocols) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	return p.db.Write(ctx, func(tx tables.Transaction) error {
		var dropped []string
		if err := tables.Delete(tx, dialect, space, id, replaces, remove(tx, &dropped)); err != nil {
			return err
		}
		return dropVectors(tx, dropped)
	})
}

// insertChains inserts the chains after makeRoom. It takes a few statements for
// all of them, because a statement costs more than a row.
func insertChains(tx tables.Transaction, rows []record.Chain) error {
	if err := claimSteps(tx, rows); err != nil {
		return err
	}
	first, err := tables.Numbers(tx, len(rows))
	if err != nil {
		return err
	}
	var chains, texts, steps []any
	for i, r := range rows {
		c, key := r.Chain, first+int64(i)
		chains = append(chains, key, c.Space, c.ID, c.Title, r.Outline, r.Revision, r.Saved, len(c.Steps), c.ModelID, key)
		texts = append(texts, key, r.Texts)
		for j, hash := range r.Passages {
			steps = append(steps, key, j, stepKey(c.Steps[j].UUID), hash[:passageSize])
		}
	}
	if err := insert(tx, `chains (key, space, id, title, outline, revision, saved, step_count, model, changed)`, 10, chains); err != nil {
		return err
	}
	if err := insert(tx, `texts (chain, texts)`, 2, texts); err != nil {
		return err
	}
	return insert(tx, `steps (chain, position, uuid, passage)`, 4, steps)
}

// claimSteps rejects a step id that another chain of its space has, and removes
// the others from the former steps.
func claimSteps(tx tables.Transaction, rows []record.Chain) error {
	claims, err := record.Claims(rows)
	if err != nil {
		return err
	}
	claimed := list(claims)
	var uuid, title string
	// CROSS JOIN makes SQLite start with the few steps, not with all chains of the space.
	taken, err := tx.Row(`SELECT claimed.value ->> 0, c.title
		FROM json_each(?) claimed CROSS JOIN steps s ON s.uuid = step_key(claimed.value ->> 0) CROSS JOIN chains c ON c.key = s.chain
		WHERE c.space = claimed.value ->> 1 LIMIT 1`, []any{claimed}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return record.StepTaken(uuid, title)
	}
	return tx.Exec(`DELETE FROM former WHERE (uuid, space) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`, claimed)
}

// remove returns a function that removes the steps of a chain. It adds the hashes of
// passages that have a vector to dropped.
func remove(tx tables.Transaction, dropped *[]string) func(tables.Current) error {
	return func(c tables.Current) error {
		if err := embedded(tx, c.Key, dropped); err != nil {
			return err
		}
		return tx.Exec(`INSERT OR REPLACE INTO former (uuid, space, id) SELECT step_uuid(uuid), ?, ? FROM steps WHERE chain = ?`,
			c.Space, c.ID, c.Key)
	}
}
