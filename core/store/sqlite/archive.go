package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
)

// Archive lists and removes runs, and gives back the space that they took.
type Archive struct{ db *database }

// AllRuns implements archive.RunArchive. Ids grow with time: they order runs by
// their begin, and an id is a cursor. The cursor of live runs is a time and an id.
func (a *Archive) AllRuns(ctx context.Context, q archive.Query) ([]run.Summary, string, error) {
	where := `WHERE principal = ? AND pin IN (SELECT digest FROM pins WHERE space IN (SELECT value FROM json_each(?)))`
	args := []any{q.Principal, list(q.Spaces)}
	order, cursor := ` ORDER BY id DESC LIMIT ?`, func(last run.Summary) string { return string(last.ID) }
	if q.State != "" {
		where, args = where+` AND state = ?`, append(args, string(q.State))
	}
	switch changed, id, _ := strings.Cut(q.Cursor, " "); {
	case q.Live:
		where += ` AND live = 1`
		order, cursor = ` ORDER BY updated DESC, id DESC LIMIT ?`, func(last run.Summary) string {
			return fmt.Sprintf("%d %s", nanos(last.UpdatedAt), last.ID)
		}
		if q.Cursor != "" {
			where, args = where+` AND (updated, id) < (CAST(? AS INTEGER), ?)`, append(args, changed, id)
		}
	case q.Cursor != "":
		where, args = where+` AND id < ?`, append(args, q.Cursor)
	}
	runs, err := a.db.summaries(ctx, where+order, append(args, q.Limit+1)...)
	if err != nil || len(runs) <= q.Limit {
		return runs, "", err
	}
	runs = runs[:q.Limit]
	return runs, cursor(runs[q.Limit-1]), nil
}

// Overdue implements archive.RunArchive.
func (a *Archive) Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error) {
	var ids []run.ID
	err := a.db.rows(ctx, `SELECT id FROM runs INDEXED BY runs_open WHERE live = 1 AND
		(created < ? OR updated < ? AND state = ? AND step_index = 1) LIMIT ?`,
		[]any{nanos(began), nanos(untouched), string(run.Open), limit}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, run.ID(id))
			return err
		})
	return ids, err
}

// CountEnded implements archive.RunArchive.
func (a *Archive) CountEnded(ctx context.Context, before time.Time) (n int, err error) {
	err = a.db.row(ctx, `SELECT count(*) FROM runs WHERE live = 0 AND updated < ?`, []any{nanos(before)}, &n)
	return n, err
}

// RemoveEnded implements archive.RunArchive.
func (a *Archive) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = a.db.write(ctx, func(tx *transaction) error {
		var numbers string
		if _, err := tx.row(`SELECT json_group_array(number) FROM (
			SELECT number FROM runs WHERE live = 0 AND updated < ? ORDER BY updated LIMIT ?)`,
			[]any{nanos(before), limit}, &numbers); err != nil {
			return err
		}
		// The run first: the saves of an existing run cannot be deleted.
		gone, err := tx.changed(`DELETE FROM runs WHERE number IN (SELECT value FROM json_each(?))`, numbers)
		if err != nil || gone == 0 {
			return err
		}
		removed = int(gone)
		return tx.exec(`DELETE FROM saves WHERE id IN (SELECT s.id FROM json_each(?) n JOIN saves s
			ON s.id > n.value << 20 AND s.id <= (n.value << 20) + ?)`, numbers, maxRevision)
	})
	return removed, err
}
