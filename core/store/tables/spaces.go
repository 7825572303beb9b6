package tables

import (
	"context"
	"time"
)

// Spaces keeps the spaces that operators made.
type Spaces struct{ DB Base }

// MadeSpace is a space that an operator made.
type MadeSpace struct {
	ID      string
	Created int64 // milliseconds
}

// Made lists the ids of the spaces in their order.
func (s *Spaces) Made(ctx context.Context) (ids []string, err error) {
	err = s.DB.Rows(ctx, `SELECT id FROM spaces ORDER BY id`, nil, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// Make stores a space, and reports false if it is there already.
func (s *Spaces) Make(ctx context.Context, id string, at time.Time) (made bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := s.Insert(tx, MadeSpace{id, at.UnixMilli()})
		made = n > 0
		return err
	})
	return made, err
}

// Insert stores a space unless it is there.
func (s *Spaces) Insert(tx Transaction, m MadeSpace) (int64, error) {
	return tx.Changed(`INSERT INTO spaces (id, created) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, m.ID, m.Created)
}
