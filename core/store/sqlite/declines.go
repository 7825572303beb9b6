package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
)

var _ declines.Store = (*People)(nil)

// SaveDecline implements declines.Store.
func (s *People) SaveDecline(ctx context.Context, d declines.Decline, before time.Time) error {
	document, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.db.write(ctx, func(tx *transaction) error {
		if err := tx.exec(`DELETE FROM declines WHERE at < ?`, before.UnixMilli()); err != nil {
			return err
		}
		return tx.exec(`INSERT INTO declines (principal, space, action, at, document) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (principal, space, action) DO UPDATE SET at = excluded.at, document = excluded.document`,
			d.Principal, d.Space, d.Key, d.At.UnixMilli(), string(document))
	})
}

// DeclinesOf implements declines.Store.
func (s *People) DeclinesOf(ctx context.Context, principal, space string) (all []declines.Decline, err error) {
	err = s.db.rows(ctx, `SELECT action, document FROM declines WHERE principal = ? OR space = ? ORDER BY at DESC, action`, []any{principal, space}, func(scan func(...any) error) error {
		var action string
		var document []byte
		if err := scan(&action, &document); err != nil {
			return err
		}
		var d declines.Decline
		if err := json.Unmarshal(document, &d); err != nil {
			return s.db.damaged("decline", action, err)
		}
		all = append(all, d)
		return nil
	})
	return all, err
}

// RemoveDecline implements declines.Store.
func (s *People) RemoveDecline(ctx context.Context, d declines.Decline) error {
	return s.db.write(ctx, func(tx *transaction) error {
		return tx.exec(`DELETE FROM declines WHERE principal = ? AND space = ? AND action = ?`, d.Principal, d.Space, d.Key)
	})
}
