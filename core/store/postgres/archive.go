package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// AllRuns implements archive.RunArchive. Ids grow with time: they order runs by
// their begin, and an id is a cursor.
func (s *Runs) AllRuns(ctx context.Context, q archive.Query) ([]run.Summary, string, error) {
	where, args := `WHERE principal = $1 AND space = ANY($2)`, []any{q.Principal, q.Spaces}
	if q.Cursor != "" {
		args = append(args, q.Cursor)
		where += fmt.Sprintf(` AND id < $%d`, len(args))
	}
	if q.State != "" {
		args = append(args, string(q.State))
		where += fmt.Sprintf(` AND state = $%d`, len(args))
	}
	args = append(args, q.Limit+1)
	runs, err := s.summaries(ctx, where+fmt.Sprintf(` ORDER BY id DESC LIMIT $%d`, len(args)), args...)
	if err != nil || len(runs) <= q.Limit {
		return runs, "", err
	}
	runs = runs[:q.Limit]
	return runs, string(runs[q.Limit-1].ID), nil
}

// Overdue implements archive.RunArchive.
func (s *Runs) Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error) {
	return s.ids(ctx, `SELECT id FROM runs WHERE ended IS NULL
		AND (created < $1 OR updated < $2 AND state = $3 AND step_index = 1) LIMIT $4`,
		record.Nanos(began), record.Nanos(untouched), string(run.Open), limit)
}

func (s *Runs) ids(ctx context.Context, query string, args ...any) (ids []run.ID, err error) {
	err = s.db.rows(ctx, query, args, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, run.ID(id))
		return err
	})
	return ids, err
}

// RemoveEnded implements archive.RunArchive.
func (s *Runs) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.db.write(ctx, func(tx *transaction) error {
		var ids []string
		// Runs that another server is removing or changing are left to the next call.
		err := tx.rows(`DELETE FROM runs WHERE id IN (
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
		// A statement of its own, because it must see every save of the runs.
		if err := tx.exec(`DELETE FROM saves WHERE run = ANY($1)`, ids); err != nil {
			return err
		}
		return tx.exec(`DELETE FROM former_nonces WHERE run = ANY($1)`, ids)
	})
	if err != nil {
		removed = 0
	}
	return removed, err
}
