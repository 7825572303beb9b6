package sqlite

import (
	"context"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// SaveChains implements library.ProtocolWriter.
func (p *Protocols) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	rows, err := record.Encode(changes, packProtocol)
	if err != nil {
		return nil, err
	}
	index := record.Additions(rows)
	err = p.db.write(ctx, func(tx *transaction) error {
		var dropped []string
		for i := range rows {
			hashes, err := makeRoom(tx, &rows[i])
			if err != nil {
				return err
			}
			dropped = append(dropped, hashes...)
		}
		// Only now, because a step may move from one of the chains to another.
		if err := insertChains(tx, rows, index, &p.known); err != nil {
			return err
		}
		return dropVectors(tx, dropped)
	})
	if err != nil {
		return nil, err
	}
	for _, a := range index {
		p.known.Add(a.Words())
	}
	return record.Revisions(rows), nil
}

// DeleteChain implements library.ProtocolWriter.
func (p *Protocols) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	return p.db.write(ctx, func(tx *transaction) error {
		have, err := stored(tx, space, id)
		if err != nil {
			return err
		}
		if have.key == 0 {
			return notFound("protocol", id)
		}
		if have.revision != replaces {
			return record.Conflict(have.title, have.revision, replaces)
		}
		hashes, err := have.retire(tx)
		if err != nil {
			return err
		}
		if err := recordDeletion(tx, space, id, have); err != nil {
			return err
		}
		return dropVectors(tx, hashes)
	})
}

// insertChains inserts the chains after makeRoom. It takes a few statements for
// all of them, because a statement costs more than a row.
func insertChains(tx *transaction, rows []record.Chain, index []*wordindex.Addition, known *wordindex.KnownWords) error {
	if err := claimSteps(tx, rows); err != nil {
		return err
	}
	var last int64
	if _, err := tx.row(`SELECT coalesce(max(key), 0) FROM chains`, nil, &last); err != nil {
		return err
	}
	var chains, texts, steps []any
	keys := make([]int64, len(rows))
	for i, r := range rows {
		c, key := r.Chain, last+1+int64(i)
		keys[i] = key
		chains = append(chains, key, c.Space, c.ID, c.Title, r.Outline, r.Revision, r.Saved, len(c.Steps), c.ModelID)
		texts = append(texts, key, r.Texts)
		for j, hash := range r.Passages {
			steps = append(steps, key, j, stepKey(c.Steps[j].UUID), hash[:passageSize])
		}
	}
	if err := tx.insert(`chains (key, space, id, title, outline, revision, saved, step_count, model)`, 9, chains); err != nil {
		return err
	}
	if err := tx.insert(`texts (chain, texts)`, 2, texts); err != nil {
		return err
	}
	if err := tx.insert(`steps (chain, position, uuid, passage)`, 4, steps); err != nil {
		return err
	}
	for _, a := range index {
		if err := a.Insert(newIndexWriter(tx), keys, known); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom retires the chain that r replaces, and assigns the revision of r. It
// returns the hashes of the old passages that have a vector.
func makeRoom(tx *transaction, r *record.Chain) (hashes []string, err error) {
	c := r.Chain
	have, err := stored(tx, c.Space, c.ID)
	switch {
	case err != nil:
		return nil, err
	case have.revision == r.Replaces && have.key != 0:
		r.Revision = have.revision + 1
		return have.retire(tx)
	case r.Replaces != 0:
		return nil, record.Conflict(c.Title, have.revision, r.Replaces)
	case have.key != 0:
		return nil, record.Duplicate(c)
	}
	last, err := lastRevision(tx, c.Space, c.ID)
	r.Revision = last + 1
	return nil, err
}

// claimSteps rejects a step id that another chain of its space has, and removes
// the others from the former steps.
func claimSteps(tx *transaction, rows []record.Chain) error {
	claims, err := record.Claims(rows)
	if err != nil {
		return err
	}
	claimed := list(claims)
	var uuid, title string
	// CROSS JOIN makes SQLite start with the few steps, not with all chains of the space.
	taken, err := tx.row(`SELECT claimed.value ->> 0, c.title
		FROM json_each(?) claimed CROSS JOIN steps s ON s.uuid = step_key(claimed.value ->> 0) CROSS JOIN chains c ON c.key = s.chain
		WHERE c.space = claimed.value ->> 1 LIMIT 1`, []any{claimed}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return record.StepTaken(uuid, title)
	}
	return tx.exec(`DELETE FROM former WHERE (uuid, space) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`, claimed)
}

// current is the stored version of a chain; key 0: none.
type current struct {
	key, revision int64
	space, title  string
}

func stored(tx *transaction, space, id string) (current, error) {
	c := current{space: space}
	_, err := tx.row(`SELECT key, revision, title FROM chains WHERE space = ? AND id = ?`, []any{space, id},
		&c.key, &c.revision, &c.title)
	return c, err
}

// retire moves a chain into the history and removes it and its steps from the
// index. It returns the hashes of its passages that have a vector.
func (c current) retire(tx *transaction) (hashes []string, err error) {
	if err := keepVersion(tx, c.key); err != nil {
		return nil, err
	}
	if hashes, err = embedded(tx, c.key); err != nil {
		return nil, err
	}
	if err := tx.exec(`INSERT OR REPLACE INTO former (uuid, space, id)
		SELECT step_uuid(s.uuid), c.space, c.id FROM steps s JOIN chains c ON c.key = s.chain WHERE c.key = ?`, c.key); err != nil {
		return nil, err
	}
	if err := wordindex.Remove(newIndexWriter(tx), c.key); err != nil {
		return nil, err
	}
	return hashes, tx.exec(`DELETE FROM chains WHERE key = ?`, c.key)
}
