package tables

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
)

var _ index.Store = (*Protocols)(nil)

// DatabaseID implements index.Outbox.
func (p *Protocols) DatabaseID(ctx context.Context) (id string, err error) {
	err = p.db.Row(ctx, `SELECT id FROM identity`, nil, &id)
	return id, err
}

// Fill implements index.Outbox.
func (p *Protocols) Fill(ctx context.Context, indexID string) error {
	var filled string
	if err := p.db.Row(ctx, `SELECT filled FROM identity`, nil, &filled); err != nil || filled == indexID {
		return err
	}
	return p.db.Write(ctx, func(tx Transaction) error {
		// This waits for changes that found no index, and those that follow find it.
		n, err := tx.Changed(`UPDATE identity SET filled = $1 WHERE filled <> $1`, indexID)
		if err != nil || n == 0 {
			return err
		}
		return p.db.MarkAll(tx)
	})
}

// Pending implements index.Outbox.
func (p *Protocols) Pending(ctx context.Context, limit int) (entries []index.Entry, err error) {
	err = p.db.Rows(ctx, `SELECT revision, space, chain FROM outbox ORDER BY revision LIMIT $1`, []any{limit}, func(scan func(...any) error) error {
		var e index.Entry
		err := scan(&e.Revision, &e.Space, &e.ChainID)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// Behind implements index.Outbox.
func (p *Protocols) Behind(ctx context.Context, limit int) (n int, err error) {
	err = p.db.Row(ctx, `SELECT count(*) FROM (SELECT 1 FROM outbox WHERE `+p.db.Compared+` LIMIT $1) o`, []any{limit}, &n)
	return n, err
}

// Delivered implements index.Outbox.
func (p *Protocols) Delivered(ctx context.Context, entries []index.Entry) (missed []index.Entry, err error) {
	if len(entries) == 0 {
		return nil, ctx.Err()
	}
	removed := make(map[int64]bool, len(entries))
	err = p.db.Write(ctx, func(tx Transaction) error {
		clear(removed) // it may be repeated
		if p.db.LockMarks != "" {
			var last int64
			if _, err := tx.Row(p.db.LockMarks, nil, &last); err != nil {
				return err
			}
		}
		return tx.Rows(`DELETE FROM outbox WHERE revision `+p.db.In(1)+` RETURNING revision`, []any{p.db.List(index.Revisions(entries))}, func(scan func(...any) error) error {
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
func (p *Protocols) Model(ctx context.Context) (m index.Model, err error) {
	err = p.db.Row(ctx, `SELECT m.model, m.length FROM vector_models m
		WHERE EXISTS (SELECT 1 FROM vectors v WHERE v.model = m.key) ORDER BY m.stored DESC LIMIT 1`, nil, &m.Name, &m.Length)
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
	err = p.db.Rows(ctx, `SELECT key, space, id, coalesce(`+p.db.LastMark+`, 0) FROM chains WHERE key > $1 ORDER BY key LIMIT $2`,
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
