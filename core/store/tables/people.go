package tables

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/run"
)

var (
	_ acceptances.Store = (*People)(nil)
	_ declines.Store    = (*People)(nil)
)

// People keeps what people accepted and declined.
type People struct{ DB Base }

// SaveAcceptances implements acceptances.Store.
func (s *People) SaveAcceptances(ctx context.Context, all []acceptances.Acceptance) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		for _, a := range all {
			if err := s.InsertAcceptance(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// InsertAcceptance stores an acceptance in place of an earlier one of the same.
func (s *People) InsertAcceptance(tx Transaction, a acceptances.Acceptance) error {
	document, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO acceptances (id, space, protocol, run, step, driver, document) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (space, protocol, run, step, driver) DO UPDATE SET id = excluded.id, document = excluded.document`,
		a.ID, a.Space, a.Protocol, string(a.Run), a.Step, a.Driver, s.DB.JSON(document))
}

// Acceptances implements acceptances.Store. Ids grow with time.
func (s *People) Acceptances(ctx context.Context, spaces []string) ([]acceptances.Acceptance, error) {
	return documents[acceptances.Acceptance](ctx, s.DB, "acceptance", `SELECT id, document FROM acceptances WHERE space `+s.DB.In(1)+` ORDER BY id DESC`, s.DB.List(spaces))
}

// AcceptancesFor implements acceptances.Store.
func (s *People) AcceptancesFor(ctx context.Context, space, protocol string, id run.ID) ([]acceptances.Acceptance, error) {
	return documents[acceptances.Acceptance](ctx, s.DB, "acceptance", `SELECT id, document FROM acceptances WHERE space = $1 AND protocol = $2 AND run IN ('', $3) ORDER BY id DESC`, space, protocol, string(id))
}

// RemoveAcceptance implements acceptances.Store.
func (s *People) RemoveAcceptance(ctx context.Context, spaces []string, id string) (there bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := tx.Changed(`DELETE FROM acceptances WHERE id = $1 AND space `+s.DB.In(2), id, s.DB.List(spaces))
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
