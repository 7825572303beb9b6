package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
)

// The marks of the outbox are made by triggers (schema/0011.sql).

var _ index.Store = (*Protocols)(nil)

// DatabaseID implements index.Outbox.
func (p *Protocols) DatabaseID(ctx context.Context) (string, error) {
	var id string
	err := p.db.row(ctx, `SELECT id FROM identity`, nil, &id)
	return id, err
}

// Fill implements index.Outbox.
func (p *Protocols) Fill(ctx context.Context, indexID string) error {
	var filled string
	if err := p.db.row(ctx, `SELECT filled FROM identity`, nil, &filled); err != nil || filled == indexID {
		return err
	}
	return p.db.write(ctx, func(tx *transaction) error {
		n, err := tx.changed(`UPDATE identity SET filled = ?1 WHERE filled <> ?1`, indexID)
		if err != nil || n == 0 {
			return err
		}
		return tx.exec(`INSERT INTO outbox (space, chain, compared) SELECT space, id, 1 FROM chains ORDER BY key`)
	})
}

// Pending implements index.Outbox.
func (p *Protocols) Pending(ctx context.Context, limit int) ([]index.Entry, error) {
	var entries []index.Entry
	err := p.db.rows(ctx, `SELECT revision, space, chain FROM outbox ORDER BY revision LIMIT ?`, []any{limit}, func(scan func(...any) error) error {
		var e index.Entry
		err := scan(&e.Revision, &e.Space, &e.ChainID)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// Behind implements index.Outbox.
func (p *Protocols) Behind(ctx context.Context, limit int) (int, error) {
	var n int
	err := p.db.row(ctx, `SELECT count(*) FROM (SELECT 1 FROM outbox WHERE compared = 1 LIMIT ?)`, []any{limit}, &n)
	return n, err
}

// Delivered implements index.Outbox.
func (p *Protocols) Delivered(ctx context.Context, entries []index.Entry) (missed []index.Entry, err error) {
	if len(entries) == 0 {
		return nil, ctx.Err()
	}
	removed := make(map[int64]bool, len(entries))
	err = p.db.write(ctx, func(tx *transaction) error {
		return tx.rows(`DELETE FROM outbox WHERE revision IN (SELECT value FROM json_each(?)) RETURNING revision`, []any{list(index.Revisions(entries))},
			func(scan func(...any) error) error {
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
	if errors.Is(err, sql.ErrNoRows) {
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
	err = p.db.rows(ctx, `SELECT key, space, id, (SELECT seq FROM sqlite_sequence WHERE name = 'outbox') FROM chains
		WHERE key > ? ORDER BY key LIMIT ?`, []any{after, limit}, func(scan func(...any) error) error {
		var e index.Entry
		var last sql.NullInt64
		err := scan(&after, &e.Space, &e.ChainID, &last)
		e.Revision = last.Int64
		all = append(all, e)
		return err
	})
	if err == nil && len(all) == limit && limit > 0 {
		next = strconv.FormatInt(after, 10)
	}
	return all, next, err
}
