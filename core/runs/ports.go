package runs

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// The interfaces that the keeper calls. Every method may wait, honours its
// context, and is called concurrently. "Not there" is a fault.NotFound error, and
// a store that cannot be reached at present a fault.StoreUnavailable one.

// Runs keeps runs.
type Runs interface {
	// CreateRun stores a new run (Revision 0 becomes 1), the chain it is pinned
	// to, and what happened in it already, durably and all or nothing.
	CreateRun(ctx context.Context, s Save, pin protocol.Chain) error
	// Run returns the run as it was last saved, without its past.
	Run(ctx context.Context, id run.ID) (run.Run, error)
	// RunUnless is Run, except that a run that still has the revision of the known
	// one is not read.
	RunUnless(ctx context.Context, known run.Run) (Look, error)
	// SaveRun stores a changed run whose Revision is the one that was loaded,
	// as Revision+1, with its events and reply, durably and all or nothing. Its
	// cost does not depend on the run's past.
	// When another writer was first: fault.Conflict, and nothing is stored.
	SaveRun(ctx context.Context, s Save) error
}

// Look is what a store says of a run that its caller may know already.
type Look struct {
	Run     run.Run // the zero Run, unless Changed
	Changed bool
	// Absent is only said of a run that has not changed.
	Absent Absent
}

// Absent says what the store holds nothing of, so that no call has to look for it.
type Absent struct {
	Acceptances bool // in the space of the run's protocol
	Declines    bool // of the run's principal or in the run's space
}

// Index finds runs.
type Index interface {
	// OpenRuns lists the live runs that the query selects, last changed first.
	OpenRuns(ctx context.Context, q OpenQuery) ([]run.Summary, error)
	// OpenOnConnection lists those that were begun or resumed last on the connection,
	// last begun first; none for "".
	OpenOnConnection(ctx context.Context, q OpenQuery, connection string) ([]run.Summary, error)
	// LastOpen lists those of the principal's last q.Limit runs that are live and in the spaces,
	// of whatever protocol, last begun first.
	LastOpen(ctx context.Context, q OpenQuery) ([]run.Summary, error)
	// Pinned returns the chain a run was pinned to, by Run.Pin.
	Pinned(ctx context.Context, digest string) (protocol.Chain, error)
}

// OpenQuery selects live runs of one protocol, to choose the one that a call means. The
// cost of a query depends on Limit and not on how many runs are open.
type OpenQuery struct {
	Principal string
	Spaces    []string // of the protocols
	Chain     string   // id of the protocol
	Limit     int      // at least 1
}

// History reads what happened in a run.
type History interface {
	// Events of a run, oldest first.
	Events(ctx context.Context, id run.ID) ([]run.Event, error)
	// EventsBetween are those after one revision of a run up to another; none if
	// there is no such run.
	EventsBetween(ctx context.Context, id run.ID, after, upTo int64) ([]run.Event, error)
	// Recorded returns the reply recorded under the key, and whether there is one.
	Recorded(ctx context.Context, id run.ID, key string) (Recorded, bool, error)
}

// Save is one change of a run.
type Save struct {
	Run      run.Run
	Events   []run.Event
	Recorded []Recorded
	// Moved is the protocol of an adopted run as Run.Pin names it now, or nil. With it SaveRun
	// stores the principal and the pin of the run, which otherwise never change.
	Moved *protocol.Chain
}

// Recorded is a reply kept for network retries: the same key with the same
// payload gets the same reply.
type Recorded struct {
	Key     string          // "nonce:<nonce>" or "seq:<question number>"
	Payload string          // digest of what was submitted
	Reply   json.RawMessage // a StepReply
}
