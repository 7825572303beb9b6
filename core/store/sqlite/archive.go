package sqlite

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Archive lists and removes runs, and gives back the space that they took.
type Archive struct {
	tables.Archive
	db *database
}

// RemoveEnded implements archive.RunArchive.
func (a *Archive) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = a.db.Write(ctx, func(tx tables.Transaction) error {
		var numbers string
		if _, err := tx.Row(`SELECT json_group_array(number) FROM (
			SELECT number FROM runs WHERE live = 0 AND updated < ? ORDER BY updated LIMIT ?)`,
			[]any{record.Nanos(before), limit}, &numbers); err != nil {
			return err
		}
		if err := tx.Exec(`DELETE FROM acceptances WHERE run IN (
			SELECT id FROM runs WHERE number IN (SELECT value FROM json_each(?)))`, numbers); err != nil {
			return err
		}
		// The run first: the saves of an existing run cannot be deleted.
		gone, err := tx.Changed(`DELETE FROM runs WHERE number IN (SELECT value FROM json_each(?))`, numbers)
		if err != nil || gone == 0 {
			return err
		}
		removed = int(gone)
		return tx.Exec(`DELETE FROM saves WHERE id IN (SELECT s.id FROM json_each(?) n JOIN saves s
			ON s.id > n.value << 20 AND s.id <= (n.value << 20) + ?)`, numbers, record.MaxRevision)
	})
	return removed, err
}
