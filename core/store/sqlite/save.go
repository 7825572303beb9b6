package sqlite

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// SaveChains implements library.ProtocolWriter.
func (p *Protocols) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	rows, err := encodeChanges(changes)
	if err != nil {
		return nil, err
	}
	index := indexOf(rows)
	err = p.db.write(ctx, func(tx *transaction) error {
		var dropped []string
		for i := range rows {
			hashes, err := rows[i].makeRoom(tx)
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
	revisions := make([]int64, len(rows))
	for i, row := range rows {
		revisions[i] = row.revision
	}
	for _, a := range index {
		p.known.Add(a.Words())
	}
	return revisions, nil
}

// indexOf returns the additions to the search index for the rows.
func indexOf(rows []chainRow) []*wordindex.Addition {
	spaces, chains := make([]string, len(rows)), make([]wordindex.Analysed, len(rows))
	for i, row := range rows {
		spaces[i], chains[i] = row.chain.Space, row.index
	}
	return wordindex.Additions(spaces, chains)
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
			return conflict(have.title, have.revision, replaces)
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

func conflict(title string, have, replaces int64) error {
	was := fmt.Sprintf("revision %d is stored", have)
	if have == 0 {
		was = "it is not stored any more"
	}
	return fault.New(fault.Conflict, "protocol %q was changed meanwhile: %s, revision %d was to be replaced", title, was, replaces).
		WithRemedy("read it again and repeat the change")
}

// insertChains inserts the chains after makeRoom. It takes a few statements for
// all of them, because a statement costs more than a row.
func insertChains(tx *transaction, rows []chainRow, index []*wordindex.Addition, known *wordindex.KnownWords) error {
	if err := claimSteps(tx, rows); err != nil {
		return err
	}
	var last int64
	if _, err := tx.row(`SELECT coalesce(max(key), 0) FROM chains`, nil, &last); err != nil {
		return err
	}
	var chains, steps []any
	keys := make([]int64, len(rows))
	for i, r := range rows {
		c, key := r.chain, last+1+int64(i)
		keys[i] = key
		chains = append(chains, key, c.Space, c.ID, c.Title, r.outline, r.document, r.revision, r.saved)
		for j, hash := range r.passages {
			steps = append(steps, key, j, c.Steps[j].UUID, hash)
		}
	}
	if err := tx.insert(`chains (key, space, id, title, outline, document, revision, saved)`, 8, chains); err != nil {
		return err
	}
	if err := tx.insert(`steps (chain, position, uuid, passage)`, 4, steps); err != nil {
		return err
	}
	for _, a := range index {
		if err := a.Insert(indexWriter{tx}, keys, known); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom retires the chain that r replaces, and assigns the revision of r. It
// returns the hashes of the old passages that have a vector.
func (r *chainRow) makeRoom(tx *transaction) (hashes []string, err error) {
	c := r.chain
	have, err := stored(tx, c.Space, c.ID)
	switch {
	case err != nil:
		return nil, err
	case have.revision == r.replaces && have.key != 0:
		r.revision = have.revision + 1
		return have.retire(tx)
	case r.replaces != 0:
		return nil, conflict(c.Title, have.revision, r.replaces)
	case have.key != 0:
		return nil, duplicate(c)
	}
	last, err := lastRevision(tx, c.Space, c.ID)
	r.revision = last + 1
	return nil, err
}

// claimSteps rejects a step id that another chain of its space has, and removes
// the others from the former steps.
func claimSteps(tx *transaction, rows []chainRow) error {
	var claims [][2]string
	owners := make(map[[2]string]string)
	for _, r := range rows {
		for _, step := range r.chain.Steps {
			claim := [2]string{step.UUID, r.chain.Space}
			if owner, taken := owners[claim]; taken {
				return stepTaken(step.UUID, owner)
			}
			owners[claim] = r.chain.Title
			claims = append(claims, claim)
		}
	}
	claimed := list(claims)
	var uuid, title string
	// CROSS JOIN makes SQLite start with the few steps, not with all chains of the space.
	taken, err := tx.row(`SELECT s.uuid, c.title
		FROM json_each(?) claimed CROSS JOIN steps s ON s.uuid = claimed.value ->> 0 CROSS JOIN chains c ON c.key = s.chain
		WHERE c.space = claimed.value ->> 1 LIMIT 1`, []any{claimed}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return stepTaken(uuid, title)
	}
	return tx.exec(`DELETE FROM former WHERE (uuid, space) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`, claimed)
}

func stepTaken(uuid, title string) error {
	return fault.New(fault.InvalidArgument, "step %s belongs to protocol %q", uuid, title)
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
		SELECT s.uuid, c.space, c.id FROM steps s JOIN chains c ON c.key = s.chain WHERE c.key = ?`, c.key); err != nil {
		return nil, err
	}
	if err := wordindex.Remove(indexWriter{tx}, c.key); err != nil {
		return nil, err
	}
	return hashes, tx.exec(`DELETE FROM chains WHERE key = ?`, c.key)
}
