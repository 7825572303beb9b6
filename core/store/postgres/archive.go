package postgres

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Archive lists and removes runs.
type Archive struct {
	tables.Archive
	db *database
}

// RemoveEnded implements archive.RunArchive.
func (a *Archive) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = a.db.Write(ctx, func(tx tables.Transaction) error {
		var ids []string
		// Runs that another server is removing or changing are left to the next call.
		err := tx.Rows(`DELETE FROM runs WHERE id IN (
				SELECT id FROM runs WHERE ended < $1 ORDER BY ended LIMIT $2 FOR UPDATE SKIP LOCKED)
			RETURNING id`, []any{record.Nanos(before), limit}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
		if removed = len(ids); err != nil || removed == 0 {
			return err
		}
		if err := tx.Exec(`DELETE FROM acceptances WHERE run = ANY($1)`, ids); err != nil {
			return err
		}
		// A statement of its own, because it must see every save of the runs.
		return tx.Exec(`DELETE FROM saves WHERE run = ANY($1)`, ids)
	})
	if err != nil {
		removed = 0
	}
	return removed, err
}
