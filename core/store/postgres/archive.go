package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// Archive lists and removes runs.
type Archive struct{ db *database }

// AllRuns implements archive.RunArchive. Ids grow with time: they order runs by
// their begin, and an id is a cursor. The cursor of live runs is a time and an id.
func (a *Archive) AllRuns(ctx context.Context, q archive.Query) ([]run.Summary, string, error) {
	where, args := `WHERE principal = $1 AND space = ANY($2)`, []any{q.Principal, q.Spaces}
	also := func(condition string, more ...any) {
		at := make([]any, len(more))
		for i := range more {
			at[i] = len(args) + 1 + i
		}
		where, args = where+" AND "+fmt.Sprintf(condition, at...), append(args, more...)
	}
	if q.State != "" {
		also(`state = $%d`, string(q.State))
	}
	order, cursor := `id DESC`, func(last run.Summary) string { return string(last.ID) }
	if q.Live {
		where += ` AND ended IS NULL`
		order, cursor = `updated DESC, id DESC`, liveCursor
	}
	switch {
	case q.Cursor != "" && q.Live:
		changed, id := parseLiveCursor(q.Cursor)
		also(`(updated, id) < ($%d, $%d)`, changed, id)
	case q.Cursor != "":
		also(`id < $%d`, q.Cursor)
	}
	args = append(args, q.Limit+1)
	runs, err := a.db.summaries(ctx, where+fmt.Sprintf(` ORDER BY %s LIMIT $%d`, order, len(args)), args...)
	if err != nil || len(runs) <= q.Limit {
		return runs, "", err
	}
	runs = runs[:q.Limit]
	return runs, cursor(runs[q.Limit-1]), nil
}

func liveCursor(last run.Summary) string {
	return fmt.Sprintf("%d %s", record.Nanos(last.UpdatedAt), last.ID)
}

// parseLiveCursor reads what liveCursor returned. Anything else is before all runs.
func parseLiveCursor(cursor string) (changed int64, id string) {
	text, id, _ := strings.Cut(cursor, " ")
	changed, _ = strconv.ParseInt(text, 10, 64)
	return changed, id
}

// CountEnded implements archive.RunArchive.
func (a *Archive) CountEnded(ctx context.Context, before time.Time) (n int, err error) {
	err = a.db.row(ctx, `SELECT count(*) FROM runs WHERE ended < $1`, []any{record.Nanos(before)}, &n)
	return n, err
}

// Overdue implements archive.RunArchive.
func (a *Archive) Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error) {
	return a.db.ids(ctx, `SELECT id FROM runs WHERE ended IS NULL
		AND (created < $1 OR updated < $2 AND state = $3 AND step_index = 1) LIMIT $4`,
		record.Nanos(began), record.Nanos(untouched), string(run.Open), limit)
}

func (d *database) ids(ctx context.Context, query string, args ...any) (ids []run.ID, err error) {
	err = d.rows(ctx, query, args, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, run.ID(id))
		return err
	})
	return ids, err
}

// RemoveEnded implements archive.RunArchive.
func (a *Archive) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = a.db.write(ctx, func(tx *transaction) error {
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
		return tx.exec(`DELETE FROM saves WHERE run = ANY($1)`, ids)
	})
	if err != nil {
		removed = 0
	}
	return removed, err
}
