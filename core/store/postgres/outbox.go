package postgres

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
)

var _ index.Store = (*Protocols)(nil)

// DatabaseID implements index.Outbox.
func (p *Protocols) DatabaseID(ctx context.Context) (id string, err error) {
	err = p.db.row(ctx, `SELECT id FROM identity`, nil, &id)
	return id, err
}

// Fill implements index.Outbox.
func (p *Protocols) Fill(ctx context.Context, indexID string) error {
	var filled string
	if err := p.db.row(ctx, `SELECT filled FROM identity`, nil, &filled); err != nil || filled == indexID {
		return err
	}
	return p.db.write(ctx, func(tx *transaction) error {
		// This waits for changes that found no index, and those that follow find it.
		n, err := tx.changed(`UPDATE identity SET filled = $1 WHERE only_row = 1 AND filled <> $1`, indexID)
		if err != nil || n == 0 {
			return err
		}
		return mark(tx, true, allChains)
	})
}

// The protocols that are marked.
const (
	allChains     = `SELECT space, id, key FROM chains`
	chainsNamed   = `SELECT * FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS named (space, id, rank)`
	chainsOfHash  = `SELECT c.space, c.id, c.key FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = ANY($3::bytea[])`
	chainsOfSteps = `SELECT c.space, c.id, c.key FROM steps s JOIN chains c ON c.key = s.chain WHERE s.space = $3 AND s.uuid = ANY($4::text[])`
)

// mark marks the protocols of a query, which returns spaces, ids and ranks, if there is an index.
// Its arguments begin at $3. Call it last: it excludes other marks until the
// transaction ends.
func mark(tx *transaction, compared bool, query string, args ...any) error {
	there, err := indexed(tx)
	if err != nil || !there {
		return err
	}
	var last int64
	if _, err := tx.row(`SELECT marks FROM identity WHERE only_row = 1 FOR UPDATE`, nil, &last); err != nil {
		return err
	}
	n, err := tx.changed(`INSERT INTO outbox AS o (space, chain, revision, compared)
		SELECT space, id, $1 + row_number() OVER (ORDER BY min(rank), space, id), $2 FROM (`+query+`) AS changed (space, id, rank) GROUP BY space, id
		ON CONFLICT (space, chain) DO UPDATE SET revision = excluded.revision, compared = o.compared OR excluded.compared`,
		append([]any{last, compared}, args...)...)
	if err != nil || n == 0 {
		return err
	}
	return tx.exec(`UPDATE identity SET marks = $1 WHERE only_row = 1`, last+n)
}

// indexed reports whether there is an index. If there is none, no other transaction
// can begin one before this one ends. Transactions that mark lock the row only in
// mark: of two that had shared it, none could.
func indexed(tx *transaction) (bool, error) {
	var filled string
	if _, err := tx.row(`SELECT filled FROM identity WHERE only_row = 1`, nil, &filled); err != nil || filled != "" {
		return true, err
	}
	_, err := tx.row(`SELECT filled FROM identity WHERE only_row = 1 FOR SHARE`, nil, &filled)
	return filled != "", err
}

// Pending implements index.Outbox.
func (p *Protocols) Pending(ctx context.Context, limit int) ([]index.Entry, error) {
	var entries []index.Entry
	err := p.db.rows(ctx, `SELECT revision, space, chain FROM outbox ORDER BY revision LIMIT $1`, []any{limit}, func(scan func(...any) error) error {
		var e index.Entry
		err := scan(&e.Revision, &e.Space, &e.ChainID)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// Behind implements index.Outbox.
func (p *Protocols) Behind(ctx context.Context, limit int) (n int, err error) {
	err = p.db.row(ctx, `SELECT count(*) FROM (SELECT 1 FROM outbox WHERE compared LIMIT $1) o`, []any{limit}, &n)
	return n, err
}

// Delivered implements index.Outbox.
func (p *Protocols) Delivered(ctx context.Context, entries []index.Entry) (missed []index.Entry, err error) {
	if len(entries) == 0 {
		return nil, ctx.Err()
	}
	removed := make(map[int64]bool, len(entries))
	err = p.db.write(ctx, func(tx *transaction) error {
		clear(removed) // it may be repeated
		// One at a time, so that it never waits for a mark that waits for it.
		var last int64
		if _, err := tx.row(`SELECT marks FROM identity WHERE only_row = 1 FOR UPDATE`, nil, &last); err != nil {
			return err
		}
		return tx.rows(`DELETE FROM outbox WHERE revision = ANY($1) RETURNING revision`, []any{index.Revisions(entries)}, func(scan func(...any) error) error {
			var revision int64
			err := scan(&revision)
			removed[revision] = true
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return index.Missed(entries, removed), nil
}

// Model implements index.Outbox.
func (p *Protocols) Model(ctx context.Context) (index.Model, error) {
	var m index.Model
	// Every stored vector gets new signs, whose ids only grow.
	err := p.db.row(ctx, `SELECT m.model, m.length FROM vector_models m
		WHERE m.key = (SELECT model FROM vector_signs ORDER BY id DESC LIMIT 1)`, nil, &m.Name, &m.Length)
	if errors.Is(err, pgx.ErrNoRows) {
		return index.Model{}, nil
	}
	return m, err
}

// Entries implements index.Outbox.
func (p *Protocols) Entries(ctx context.Context, cursor string, limit int) (all []index.Entry, next string, err error) {
	after := int64(-1)
	if cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", fault.New(fault.InvalidArgument, "the cursor is not one of this list; start without one")
		}
	}
	err = p.db.rows(ctx, `SELECT key, space, id, (SELECT marks FROM identity) FROM chains WHERE key > $1 ORDER BY key LIMIT $2`,
		[]any{after, limit}, func(scan func(...any) error) error {
			var e index.Entry
			err := scan(&after, &e.Space, &e.ChainID, &e.Revision)
			all = append(all, e)
			return err
		})
	if err == nil && len(all) == limit && limit > 0 {
		next = strconv.FormatInt(after, 10)
	}
	return all, next, err
}
