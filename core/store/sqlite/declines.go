package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
)

var _ declines.Store = (*Runs)(nil)

// SaveDecline implements declines.Store.
func (s *Runs) SaveDecline(ctx context.Context, d declines.Decline, before time.Time) error {
	document, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.db.write(ctx, func(tx *transaction) error {
		if err := tx.exec(`DELETE FROM declines WHERE space = ? AND at < ?`, d.Space, before.UnixMilli()); err != nil {
			return err
		}
		return tx.exec(`INSERT INTO declines (space, action, at, document) VALUES (?, ?, ?, ?)
			ON CONFLICT (space, action) DO UPDATE SET at = excluded.at, document = excluded.document`,
			d.Space, d.Action, d.At.UnixMilli(), string(document))
	})
}

// DeclineOf implements declines.Store.
func (s *Runs) DeclineOf(ctx context.Context, space, action string) (d declines.Decline, found bool, err error) {
	err = s.db.rows(ctx, `SELECT document FROM declines WHERE space = ? AND action = ?`, []any{space, action}, func(scan func(...any) error) error {
		var document []byte
		if err := scan(&document); err != nil {
			return err
		}
		if err := json.Unmarshal(document, &d); err != nil {
			return s.db.damaged("decline", action, err)
		}
		found = true
		return nil
	})
	return d, found, err
}

// RemoveDecline implements declines.Store.
func (s *Runs) RemoveDecline(ctx context.Context, space, action string) error {
	return s.db.write(ctx, func(tx *transaction) error {
		return tx.exec(`DELETE FROM declines WHERE space = ? AND action = ?`, space, action)
	})
}
