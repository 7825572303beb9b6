package tables

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

// Archive lists runs.
type Archive struct{ DB Base }

// AllRuns implements archive.RunArchive. Ids grow with time: they order runs by
// their begin, and an id is a cursor. The cursor of live runs is a time and an id.
func (a *Archive) AllRuns(ctx context.Context, q archive.Query) ([]run.Summary, string, error) {
	var conditions []string
	var args []any
	if !q.Everybody {
		args = append(args, q.Principal)
		conditions = append(conditions, `principal = $1`)
	}
	if q.Spaces != nil {
		args = append(args, a.DB.List(q.Spaces))
		conditions = append(conditions, a.DB.RunSpace+` `+a.DB.In(len(args)))
	}
	if q.State != "" {
		args = append(args, string(q.State))
		conditions = append(conditions, fmt.Sprintf(`state = $%d`, len(args)))
	}
	order, cursor := `id DESC`, func(last run.Summary) string { return string(last.ID) }
	if q.Live {
		conditions = append(conditions, a.DB.Live)
		order, cursor = `updated DESC, id DESC`, liveCursor
	}
	switch {
	case q.Cursor != "" && q.Live:
		changed, id := parseLiveCursor(q.Cursor)
		args = append(args, changed, id)
		conditions = append(conditions, fmt.Sprintf(`(updated, id) < ($%d, $%d)`, len(args)-1, len(args)))
	case q.Cursor != "":
		args = append(args, q.Cursor)
		conditions = append(conditions, fmt.Sprintf(`id < $%d`, len(args)))
	}
	args = append(args, q.Limit+1)
	where := ""
	if len(conditions) > 0 {
		where = `WHERE ` + strings.Join(conditions, ` AND `)
	}
	runs, err := a.DB.summaries(ctx, where+fmt.Sprintf(` ORDER BY %s LIMIT $%d`, order, len(args)), args...)
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
	err = a.DB.Row(ctx, `SELECT count(*) FROM runs r WHERE `+a.DB.Ended+` < $1`, []any{record.Nanos(before)}, &n)
	return n, err
}

// Overdue implements archive.RunArchive.
func (a *Archive) Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error) {
	return a.DB.ids(ctx, `SELECT id FROM runs r `+a.DB.ByProtocol+` WHERE `+a.DB.Live+`
		AND (created < $1 OR updated < $2 AND state = $3 AND step_index = 1) LIMIT $4`,
		record.Nanos(began), record.Nanos(untouched), string(run.Open), limit)
}
