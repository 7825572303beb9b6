package postgres

import (
	"context"
	"encoding/hex"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// lockProtocols excludes all other writers of protocols and vectors, on every server, until the transaction ends. Their changes become visible in the order in
// which they got the lock, so numbers grow with visibility.
func lockProtocols(tx tables.Transaction) error {
	var last int64
	_, err := tx.Row(`SELECT numbers FROM library WHERE only_row = 1 FOR UPDATE`, nil, &last)
	return err
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
	err = p.db.Write(ctx, func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		var dropped [][]byte
		for i := range rows {
			if err := tables.MakeRoom(tx, dialect, &rows[i], remove(tx, &dropped)); err != nil {
				return err
			}
		}
		// Only now, because a step may move from one of the chains to another.
		if err := claimSteps(tx, claims); err != nil {
			return err
		}
		if err := insertChains(tx, rows); err != nil {
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
	return record.Revisions(rows), nil
}

// DeleteChain implements library.ProtocolWriter.
func (p *Protocols) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	return p.db.Write(ctx, func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		var hashes [][]byte
		if err := tables.Delete(tx, dialect, space, id, replaces, remove(tx, &hashes)); err != nil {
			return err
		}
		if err := dropVectors(tx, hashes); err != nil {
			return err
		}
		return mark(tx, true, chainsNamed, []string{space}, []string{id})
	})
}

func markChains(tx tables.Transaction, rows []record.Chain) error {
	spaces, ids := make([]string, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		spaces[i], ids[i] = r.Chain.Space, r.Chain.ID
	}
	return mark(tx, true, chainsNamed, spaces, ids)
}

// insertChains inserts the chains after makeRoom, in a few statements for all of them.
func insertChains(tx tables.Transaction, rows []record.Chain) error {
	if len(rows) == 0 {
		return nil
	}
	first, err := tables.Numbers(tx, len(rows))
	if err != nil {
		return err
	}
	var c chainColumns
	for i, r := range rows {
		c.add(first+int64(i), r)
	}
	if err := tx.Exec(`INSERT INTO chains (key, space, id, title, outline, texts, revision, saved, step_count, model, changed)
		SELECT *, key FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::integer[], $10::text[])
			AS stored (key, space, id, title, outline, texts, revision, saved, step_count, model)`,
		c.keys, c.spaces, c.ids, c.titles, c.outlines, c.texts, c.revisions, c.saved, c.counts, c.models); err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO steps (space, uuid, chain, position, passage)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bytea[])`,
		c.stepSpaces, c.uuids, c.chains, c.positions, c.passages)
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

// claimSteps rejects a step that another chain of its space has, and removes the
// others from the former steps.
func claimSteps(tx tables.Transaction, claims []record.Claim) error {
	uuids, spaces := make([]string, len(claims)), make([]string, len(claims))
	for i, claim := range claims {
		uuids[i], spaces[i] = claim[0], claim[1]
	}
	var uuid, title string
	taken, err := tx.Row(`SELECT s.uuid, c.title FROM unnest($1::text[], $2::text[]) AS claimed (uuid, space)
		JOIN steps s ON s.space = claimed.space AND s.uuid = claimed.uuid JOIN chains c ON c.key = s.chain LIMIT 1`,
		[]any{uuids, spaces}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return record.StepTaken(uuid, title)
	}
	return tx.Exec(`DELETE FROM former WHERE (space, uuid) IN (SELECT * FROM unnest($2::text[], $1::text[]))`, uuids, spaces)
}

// remove returns a function that removes the steps of a chain. It adds the hashes of its
// passages to dropped.
func remove(tx tables.Transaction, dropped *[][]byte) func(tables.Current) error {
	return func(c tables.Current) error {
		return tx.Rows(`WITH gone AS (DELETE FROM steps WHERE chain = $1 RETURNING uuid, passage),
			kept AS (INSERT INTO former (space, uuid, id) SELECT $2, uuid, $3 FROM gone
				ON CONFLICT (space, uuid) DO UPDATE SET id = excluded.id)
			SELECT passage FROM gone`, []any{c.Key, c.Space, c.ID}, func(scan func(...any) error) error {
			var hash []byte
			err := scan(&hash)
			*dropped = append(*dropped, hash)
			return err
		})
	}
}

// dropVectors removes those of the vectors whose passage no chain has any more.
func dropVectors(tx tables.Transaction, hashes [][]byte) error {
	if len(hashes) == 0 {
		return nil
	}
	return tx.Exec(`DELETE FROM vectors v WHERE v.hash = ANY($1) AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.passage = v.hash)`, hashes)
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
