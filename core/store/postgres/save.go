package postgres

import (
	"context"
	"encoding/hex"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// lockProtocols excludes all other writers of protocols, vectors and index, on every
// server, until the transaction ends. Their changes become visible in the order in
// which they got the lock, so numbers grow with visibility.
func lockProtocols(tx *transaction) error {
	var analyser int
	_, err := tx.row(`SELECT analyser FROM search_state WHERE only_row = 1 FOR UPDATE`, nil, &analyser)
	return err
}

// numbers returns the first of n successive numbers that were never given before.
// The caller has the lock of protocols.
func numbers(tx *transaction, n int) (int64, error) {
	var last int64
	_, err := tx.row(`UPDATE search_state SET numbers = numbers + $1 WHERE only_row = 1 RETURNING numbers`, []any{n}, &last)
	return last - int64(n) + 1, err
}

// SaveChains implements library.ProtocolWriter.
func (p *Protocols) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	rows, err := record.Encode(changes, record.Plain)
	if err != nil {
		return nil, err
	}
	claims, err := record.Claims(rows)
	if err != nil {
		return nil, err
	}
	index := record.Additions(rows)
	err = p.db.write(ctx, func(tx *transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		var dropped [][]byte
		for i := range rows {
			hashes, err := makeRoom(tx, &rows[i])
			if err != nil {
				return err
			}
			dropped = append(dropped, hashes...)
		}
		// Only now, because a step may move from one of the chains to another.
		if err := claimSteps(tx, claims); err != nil {
			return err
		}
		if err := insertChains(tx, rows, index, &p.known); err != nil {
			return err
		}
		if err := dropVectors(tx, dropped); err != nil {
			return err
		}
		return markChains(tx, rows)
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
		if err := lockProtocols(tx); err != nil {
			return err
		}
		have, err := stored(tx, space, id)
		if err != nil {
			return err
		}
		if have.key == 0 {
			return record.NotFound("protocol", id)
		}
		if have.revision != replaces {
			return record.Conflict(have.title, have.revision, replaces)
		}
		hashes, err := have.retire(tx)
		if err != nil {
			return err
		}
		if err := recordDeletion(tx, have); err != nil {
			return err
		}
		if err := dropVectors(tx, hashes); err != nil {
			return err
		}
		return mark(tx, true, chainsNamed, []string{space}, []string{id})
	})
}

func markChains(tx *transaction, rows []record.Chain) error {
	spaces, ids := make([]string, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		spaces[i], ids[i] = r.Chain.Space, r.Chain.ID
	}
	return mark(tx, true, chainsNamed, spaces, ids)
}

// insertChains inserts the chains after makeRoom, in a few statements for all of them.
func insertChains(tx *transaction, rows []record.Chain, index []*wordindex.Addition, known *wordindex.KnownWords) error {
	if len(rows) == 0 {
		return nil
	}
	first, err := numbers(tx, len(rows))
	if err != nil {
		return err
	}
	var c chainColumns
	for i, r := range rows {
		c.add(first+int64(i), r)
	}
	if err := tx.exec(`INSERT INTO chains (key, space, id, title, outline, texts, revision, saved, step_count, model)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::integer[], $10::text[])`,
		c.keys, c.spaces, c.ids, c.titles, c.outlines, c.texts, c.revisions, c.saved, c.counts, c.models); err != nil {
		return err
	}
	if err := tx.exec(`INSERT INTO steps (space, uuid, chain, position, passage)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bytea[])`,
		c.stepSpaces, c.uuids, c.chains, c.positions, c.passages); err != nil {
		return err
	}
	w := newIndexWriter(tx)
	for _, a := range index {
		if err := a.Insert(w, c.keys, known); err != nil {
			return err
		}
	}
	return nil
}

// chainColumns are rows of chains and steps by column.
type chainColumns struct {
	keys, revisions, saved      []int64
	spaces, ids, titles, models []string
	outlines, texts, passages   [][]byte
	counts, positions           []int32
	stepSpaces, uuids           []string
	chains                      []int64 // of the steps
}

func (c *chainColumns) add(key int64, r record.Chain) {
	c.keys, c.revisions, c.saved = append(c.keys, key), append(c.revisions, r.Revision), append(c.saved, r.Saved)
	c.spaces, c.ids, c.titles = append(c.spaces, r.Chain.Space), append(c.ids, r.Chain.ID), append(c.titles, r.Chain.Title)
	c.outlines, c.texts = append(c.outlines, r.Outline), append(c.texts, r.Texts)
	c.counts, c.models = append(c.counts, int32(len(r.Passages))), append(c.models, r.Chain.ModelID)
	for i, passage := range r.Passages {
		c.stepSpaces, c.uuids = append(c.stepSpaces, r.Chain.Space), append(c.uuids, r.Chain.Steps[i].UUID)
		c.chains, c.positions = append(c.chains, key), append(c.positions, int32(i))
		c.passages = append(c.passages, passage)
	}
}

// makeRoom retires the chain that r replaces, and assigns the revision of r. It
// returns the hashes of the old passages.
func makeRoom(tx *transaction, r *record.Chain) (hashes [][]byte, err error) {
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

// claimSteps rejects a step that another chain of its space has, and removes the
// others from the former steps.
func claimSteps(tx *transaction, claims []record.Claim) error {
	uuids, spaces := make([]string, len(claims)), make([]string, len(claims))
	for i, claim := range claims {
		uuids[i], spaces[i] = claim[0], claim[1]
	}
	var uuid, title string
	taken, err := tx.row(`SELECT s.uuid, c.title FROM unnest($1::text[], $2::text[]) AS claimed (uuid, space)
		JOIN steps s ON s.space = claimed.space AND s.uuid = claimed.uuid JOIN chains c ON c.key = s.chain LIMIT 1`,
		[]any{uuids, spaces}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return record.StepTaken(uuid, title)
	}
	return tx.exec(`DELETE FROM former WHERE (space, uuid) IN (SELECT * FROM unnest($2::text[], $1::text[]))`, uuids, spaces)
}

// current is the stored version of a chain; key 0: none.
type current struct {
	key, revision    int64
	space, id, title string
}

func stored(tx *transaction, space, id string) (current, error) {
	c := current{space: space, id: id}
	_, err := tx.row(`SELECT key, revision, title FROM chains WHERE space = $1 AND id = $2`, []any{space, id},
		&c.key, &c.revision, &c.title)
	return c, err
}

// retire moves a chain into the history and removes it and its steps from the index.
// It returns the hashes of its passages.
func (c current) retire(tx *transaction) (hashes [][]byte, err error) {
	if err := keepVersion(tx, c); err != nil {
		return nil, err
	}
	err = tx.rows(`WITH gone AS (DELETE FROM steps WHERE chain = $1 RETURNING uuid, passage),
		kept AS (INSERT INTO former (space, uuid, id) SELECT $2, uuid, $3 FROM gone
			ON CONFLICT (space, uuid) DO UPDATE SET id = excluded.id)
		SELECT passage FROM gone`, []any{c.key, c.space, c.id}, func(scan func(...any) error) error {
		var hash []byte
		err := scan(&hash)
		hashes = append(hashes, hash)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := wordindex.Remove(newIndexWriter(tx), c.key); err != nil {
		return nil, err
	}
	return hashes, tx.exec(`DELETE FROM chains WHERE key = $1`, c.key)
}

// dropVectors removes those of the vectors whose passage no chain has any more.
func dropVectors(tx *transaction, hashes [][]byte) error {
	if len(hashes) == 0 {
		return nil
	}
	return tx.exec(`WITH gone AS (
			DELETE FROM vectors v WHERE v.hash = ANY($1) AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.passage = v.hash) RETURNING v.key)
		DELETE FROM vector_signs WHERE vector IN (SELECT key FROM gone)`, hashes)
}

// rawHashes decodes hashes of passages; others are left out.
func rawHashes(hashes []string) [][]byte {
	raw := make([][]byte, 0, len(hashes))
	for _, hash := range hashes {
		if b, err := hex.DecodeString(hash); err == nil {
			raw = append(raw, b)
		}
	}
	return raw
}
