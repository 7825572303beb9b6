package archive

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// The interfaces that the archive calls. Every method may wait, honours its
// context, and is called concurrently. "Not there" is a fault.NotFound error, and
// a store that cannot be reached at present a fault.StoreUnavailable one.

// RunArchive goes over runs that may have ended.
type RunArchive interface {
	// AllRuns lists the principal's runs, the last begun one first. next is ""
	// at the end; a cursor stays good whatever changes elsewhere in the list.
	AllRuns(ctx context.Context, q Query) (runs []run.Summary, next string, err error)
	// Overdue lists live runs, whoever's they are, that began before the one
	// time or stand untouched at their first step since before the other.
	Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error)
	// RemoveEnded removes runs that are not live and were last changed before
	// the time, with their events and recorded replies: at most limit, the
	// longest ended first, durably and all or nothing. It returns how many.
	RemoveEnded(ctx context.Context, before time.Time, limit int) (int, error)
}

// Query says which runs to list.
type Query struct {
	Principal string
	State     run.State // empty: any
	Cursor    string    // "": from the start
	Limit     int       // at least 1
}

// Eraser erases values from runs, the one exception from events that never
// change.
type Eraser interface {
	// EraseRun stores a changed run as SaveRun does, and with it what erase makes
	// of each event that the run had before; its recorded replies go. erase must
	// depend on nothing but the event.
	EraseRun(ctx context.Context, s runs.Save, erase func(run.Event) run.Event) error
	// Scrub makes what was erased unreadable in the files of the database, too.
	// The error says what may still be read.
	Scrub(ctx context.Context) error
	// Unscrubbed lists the runs whose erased values may still be in the files,
	// because Scrub failed or was killed. A store resumes that when it is opened.
	Unscrubbed(ctx context.Context) ([]run.ID, error)
}
