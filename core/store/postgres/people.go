package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/grants"
)

// People keeps what people allowed and declined.
type People struct{ db *database }

// SaveGrants implements grants.Store.
func (s *People) SaveGrants(ctx context.Context, all []grants.Grant) error {
	return s.db.write(ctx, func(tx *transaction) error {
		for _, g := range all {
			if err := saveGrant(tx, g); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveGrant(tx *transaction, g grants.Grant) error {
	document, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO grants (id, space, protocol, document) VALUES ($1, $2, $3, $4)`, g.ID, g.Space, g.Protocol, document)
}

// Grants implements grants.Store. Ids grow with time.
func (s *People) Grants(ctx context.Context, spaces []string) ([]grants.Grant, error) {
	return documents[grants.Grant](ctx, s.db, "grant", `SELECT id, document FROM grants WHERE space = ANY($1) ORDER BY id DESC`, spaces)
}

// GrantsFor implements grants.Store.
func (s *People) GrantsFor(ctx context.Context, space, protocol string) ([]grants.Grant, error) {
	return documents[grants.Grant](ctx, s.db, "grant", `SELECT id, document FROM grants WHERE space = $1 AND protocol = $2 ORDER BY id DESC`, space, protocol)
}

// RemoveGrant implements grants.Store.
func (s *People) RemoveGrant(ctx context.Context, spaces []string, id string) (there bool, err error) {
	err = s.db.write(ctx, func(tx *transaction) error {
		n, err := tx.changed(`DELETE FROM grants WHERE id = $1 AND space = ANY($2)`, id, spaces)
		there = n > 0
		return err
	})
	return there, err
}

// SaveDecline implements declines.Store.
func (s *People) SaveDecline(ctx context.Context, d declines.Decline, before time.Time) error {
	return s.db.write(ctx, func(tx *transaction) error {
		if err := tx.exec(`DELETE FROM declines WHERE at < $1`, before.UnixMilli()); err != nil {
			return err
		}
		return saveDecline(tx, d)
	})
}

func saveDecline(tx *transaction, d declines.Decline) error {
	document, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO declines (principal, space, action, at, document) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (principal, space, action) DO UPDATE SET at = excluded.at, document = excluded.document`,
		d.Principal, d.Space, d.Key, d.At.UnixMilli(), document)
}

// DeclinesOf implements declines.Store.
func (s *People) DeclinesOf(ctx context.Context, principal, space string) ([]declines.Decline, error) {
	return documents[declines.Decline](ctx, s.db, "decline",
		`SELECT action, document FROM declines WHERE principal = $1 OR space = $2 ORDER BY at DESC, action`, principal, space)
}

// RemoveDecline implements declines.Store.
func (s *People) RemoveDecline(ctx context.Context, d declines.Decline) error {
	return s.db.write(ctx, func(tx *transaction) error {
		return tx.exec(`DELETE FROM declines WHERE principal = $1 AND space = $2 AND action = $3`, d.Principal, d.Space, d.Key)
	})
}

// documents reads rows of an id and a document.
func documents[T any](ctx context.Context, d *database, what, query string, args ...any) (all []T, err error) {
	err = d.rows(ctx, query, args, func(scan func(...any) error) error {
		var id string
		var document []byte
		if err := scan(&id, &document); err != nil {
			return err
		}
		var one T
		if err := json.Unmarshal(document, &one); err != nil {
			return d.damaged(what, id, err)
		}
		all = append(all, one)
		return nil
	})
	return all, err
}
