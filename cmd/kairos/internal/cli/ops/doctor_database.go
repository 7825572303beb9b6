package ops

import (
	"context"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
)

// Fixes of a damaged database.
const (
	damagedPostgres = "stop every server that uses it and restore the last backup; the log of PostgreSQL and its extension amcheck say whether pages are damaged, too"
	damagedFile     = "stop every server that uses it, keep a copy of it with its -wal and -shm, and restore the last backup; " +
		"without a backup, `sqlite3 FILE .recover | sqlite3 NEW` saves what can still be read"
)

// sound looks for damage of the database that shows in little time.
func (r *doctorReport) sound(ctx context.Context, a *app.App) bool {
	damages, err := a.Store.QuickCheck(ctx)
	return r.damage(a, "database", a.Config.Database.String(), damages, err)
}

// integrity reads the whole database and compares what belongs together.
func (r *doctorReport) integrity(ctx context.Context, a *app.App) bool {
	damages, err := a.Store.Integrity(ctx)
	return r.damage(a, "integrity", "the whole database was read, nothing is damaged", damages, err)
}

// damage notes a check of the database, and reports whether it is sound.
func (r *doctorReport) damage(a *app.App, check, sound string, damages []string, err error) bool {
	var problems []finding
	for _, d := range damages {
		problems = append(problems, finding{Problem: d})
	}
	if err != nil {
		problems = append(problems, finding{Problem: err.Error()})
	}
	if len(problems) == 0 {
		r.note(check, sound)
		return true
	}
	fix := damagedFile
	if a.Config.Database.Postgres() {
		fix = damagedPostgres
	}
	problems[len(problems)-1].Fix = fix
	r.note(check, a.Config.Database.String(), problems...)
	return false
}
