package sqlite

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/grants"
)

var _ grants.Store = (*People)(nil)

// SaveGrants implements grants.Store.
func (s *People) SaveGrants(ctx context.Context, all []grants.Grant) error {
	return s.db.write(ctx, func(tx *transaction) error {
		for _, g := range all {
			document, err := json.Marshal(g)
			if err != nil {
				return err
			}
			if err := tx.exec(`INSERT INTO grants (id, space, protocol, document) VALUES (?, ?, ?, ?)`,
				g.ID, g.Space, g.Protocol, string(document)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Grants implements grants.Store. Ids grow with time.
func (s *People) Grants(ctx context.Context, spaces []string) ([]grants.Grant, error) {
	return s.grants(ctx, `WHERE space IN (SELECT value FROM json_each(?)) ORDER BY id DESC`, list(spaces))
}

// GrantsFor implements grants.Store.
func (s *People) GrantsFor(ctx context.Context, space, protocol string) ([]grants.Grant, error) {
	return s.grants(ctx, `WHERE space = ? AND protocol = ? ORDER BY id DESC`, space, protocol)
}

func (s *People) grants(ctx context.Context, where string, args ...any) (all []grants.Grant, err error) {
	err = s.db.rows(ctx, `SELECT id, document FROM grants `+where, args, func(scan func(...any) error) error {
		var id string
		var document []byte
		if err := scan(&id, &document); err != nil {
			return err
		}
		var g grants.Grant
		if err := json.Unmarshal(document, &g); err != nil {
			return s.db.damaged("grant", id, err)
		}
		all = append(all, g)
		return nil
	})
	return all, err
}

// RemoveGrant implements grants.Store.
func (s *People) RemoveGrant(ctx context.Context, spaces []string, id string) (there bool, err error) {
	err = s.db.write(ctx, func(tx *transaction) error {
		n, err := tx.changed(`DELETE FROM grants WHERE id = ? AND space IN (SELECT value FROM json_each(?))`, id, list(spaces))
		there = n > 0
		return err
	})
	return there, err
}
