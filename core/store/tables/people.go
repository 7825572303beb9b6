package tables

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/grants"
)

var (
	_ grants.Store   = (*People)(nil)
	_ declines.Store = (*People)(nil)
)

// People keeps what people allowed and declined.
type People struct{ DB Base }

// SaveGrants implements grants.Store.
func (s *People) SaveGrants(ctx context.Context, all []grants.Grant) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		for _, g := range all {
			if err := s.InsertGrant(tx, g); err != nil {
				return err
			}
		}
		return nil
	})
}

// InsertGrant stores a new grant.
func (s *People) InsertGrant(tx Transaction, g grants.Grant) error {
	document, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO grants (id, space, protocol, document) VALUES ($1, $2, $3, $4)`, g.ID, g.Space, g.Protocol, s.DB.JSON(document))
}

// Grants implements grants.Store. Ids grow with time.
func (s *People) Grants(ctx context.Context, spaces []string) ([]grants.Grant, error) {
	return documents[grants.Grant](ctx, s.DB, "grant", `SELECT id, document FROM grants WHERE space `+s.DB.In(1)+` ORDER BY id DESC`, s.DB.List(spaces))
}

// GrantsFor implements grants.Store.
func (s *People) GrantsFor(ctx context.Context, space, protocol string) ([]grants.Grant, error) {
	return documents[grants.Grant](ctx, s.DB, "grant", `SELECT id, document FROM grants WHERE space = $1 AND protocol = $2 ORDER BY id DESC`, space, protocol)
}

// RemoveGrant implements grants.Store.
func (s *People) RemoveGrant(ctx context.Context, spaces []string, id string) (there bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := tx.Changed(`DELETE FROM grants WHERE id = $1 AND space `+s.DB.In(2), id, s.DB.List(spaces))
		there = n > 0
		return err
	})
	return there, err
}

// SaveDecline implements declines.Store.
func (s *People) SaveDecline(ctx context.Context, d declines.Decline, before time.Time) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		if err := tx.Exec(`DELETE FROM declines WHERE at < $1`, before.UnixMilli()); err != nil {
			return err
		}
		return s.InsertDecline(tx, d)
	})
}

// InsertDecline stores a decline in place of an earlier one of the same action.
func (s *People) InsertDecline(tx Transaction, d declines.Decline) error {
	document, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO declines (principal, space, action, at, document) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (principal, space, action) DO UPDATE SET at = excluded.at, document = excluded.document`,
		d.Principal, d.Space, d.Key, d.At.UnixMilli(), s.DB.JSON(document))
}

// DeclinesOf implements declines.Store.
func (s *People) DeclinesOf(ctx context.Context, principal, space string) ([]declines.Decline, error) {
	return documents[declines.Decline](ctx, s.DB, "decline",
		`SELECT action, document FROM declines WHERE principal = $1 OR space = $2 ORDER BY at DESC, action`, principal, space)
}

// RemoveDecline implements declines.Store.
func (s *People) RemoveDecline(ctx context.Context, d declines.Decline) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		return tx.Exec(`DELETE FROM declines WHERE principal = $1 AND space = $2 AND action = $3`, d.Principal, d.Space, d.Key)
	})
}

// documents reads rows of an id and a document.
func documents[T any](ctx context.Context, b Base, what, query string, args ...any) (all []T, err error) {
	err = b.Rows(ctx, query, args, func(scan func(...any) error) error {
		var id string
		var document []byte
		if err := scan(&id, &document); err != nil {
			return err
		}
		var one T
		if err := json.Unmarshal(document, &one); err != nil {
			return b.Damaged(what, id, err)
		}
		all = append(all, one)
		return nil
	})
	return all, err
}
