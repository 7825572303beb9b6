package archive

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// The interfaces that the archive calls. Every method may block, honours its
// context, and is called concurrently. A missing item is a fault.NotFound error,
// and an unreachable store a fault.StoreUnavailable one.

// RunArchive lists and removes runs, also ended ones.
type RunArchive interface {
	// AllRuns lists the runs that the query selects, the most recently begun first, or live
	// ones only, the last changed first. next is "" at the end; a cursor stays valid whatever
	// changes elsewhere in the list.
	AllRuns(ctx context.Context, q Query) (runs []run.Summary, next string, err error)
	// Overdue lists live runs of all principals that began before the first time, or
	// that are still untouched at their first step since before the second.
	Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error)
	// RemoveEnded removes at most limit runs that have ended and were last changed
	// before the time, with their events and recorded replies, the oldest first,
	// durably and all or nothing. It returns how many.
	RemoveEnded(ctx context.Context, before time.Time, limit int) (int, error)
	// CountEnded is how many runs RemoveEnded would remove without a limit.
	CountEnded(ctx context.Context, before time.Time) (int, error)
}

// Files are the files of a database that keep their size when something is removed.
type Files interface {
	Space(ctx context.Context) (Space, error)
	// Reclaim returns free space to the disk, a bounded part of it with each call,
	// and reports whether there is more. It leaves a little for what is stored next.
	Reclaim(ctx context.Context) (more bool, err error)
}

// Space is the size of a database in bytes.
type Space struct {
	Size int64
	Free int64 // part of Size that nothing is stored in
}

// Query selects runs to list.
type Query struct {
	Principal string    // whose runs; not used if Everybody is set
	Everybody bool      // the runs of all principals
	Spaces    []string  // of the protocols; nil: any
	Live      bool      // only those that can continue
	State     run.State // empty: any
	Cursor    string    // "": from the start
	Limit     int       // at least 1
}

// Eraser erases values from runs, the only exception to the rule that events never
// change.
type Eraser interface {
	// EraseRun stores a changed run like SaveRun, replaces each event that the run
	// had before by the result of erase, and removes its recorded replies. erase
	// must depend on nothing but the event.
	EraseRun(ctx context.Context, s runs.Save, erase func(run.Event) run.Event) error
	// Scrub makes erased values unreadable in the files of the database. The error
	// says what may still be readable.
	Scrub(ctx context.Context) error
	// Unscrubbed lists the runs whose erased values may still be in the files,
	// because Scrub failed or was interrupted. A store resumes it when it is opened.
	Unscrubbed(ctx context.Context) ([]run.ID, error)
}
