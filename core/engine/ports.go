package engine

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The interfaces that the engine calls. Every method may wait, honours its
// context, and is called concurrently. "Not there" is a fault.NotFound error.

// Protocols keeps protocols. Every read names the spaces it may see.
type Protocols interface {
	// StepChain returns the chain that holds the step, and the step's index in Steps.
	StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error)
	// Chain returns a chain by its id; the first of the spaces that has it wins.
	Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error)
	// Chains lists the chains of the spaces without their steps' texts, by title.
	Chains(ctx context.Context, spaces []string) ([]protocol.Chain, error)
}

// ProtocolWriter changes protocols. Each call is atomic and visible to the next read.
type ProtocolWriter interface {
	// SaveChains stores chains in their spaces, all or none. If one with the id is there
	// already: fault.DuplicateChain without replace, else it is replaced as a whole.
	SaveChains(ctx context.Context, chains []protocol.Chain, replace bool) error
	DeleteChain(ctx context.Context, space, id string) error
}

// Searcher finds protocols by words.
type Searcher interface {
	// Search returns at most limit hits, one a chain, best first. Scores are
	// 0..1: an exact title is at least 0.9, a query without a match has no hits.
	Search(ctx context.Context, spaces []string, query string, limit int) ([]Hit, error)
}

// Hit is one chain that matches a search.
type Hit struct {
	Chain protocol.Chain // without texts
	Step  int            // index in Steps of the step that matched best; 0 for the title
	Score float64
}

// Runs keeps runs.
type Runs interface {
	// CreateRun stores a new run (Revision 0 becomes 1), the chain it is pinned
	// to, and what happened in it already, durably and all or nothing.
	CreateRun(ctx context.Context, s Save, pin protocol.Chain) error
	// Run returns the run as it was last saved.
	Run(ctx context.Context, id run.ID) (run.Run, error)
	// SaveRun stores a changed run whose Revision is the one that was loaded,
	// as Revision+1, with its events and reply, durably and all or nothing.
	// When another writer was first: fault.Conflict, and nothing is stored.
	SaveRun(ctx context.Context, s Save) error
}

// RunIndex finds runs.
type RunIndex interface {
	// RunOfNonce returns the run that has or had the nonce, as Runs.Run would.
	RunOfNonce(ctx context.Context, nonce string) (run.Run, error)
	// LiveRuns lists the principal's live runs, last changed first.
	LiveRuns(ctx context.Context, principal string) ([]run.Summary, error)
	// Pinned returns the chain a run was pinned to, by Run.Pin.
	Pinned(ctx context.Context, digest string) (protocol.Chain, error)
}

// RunHistory reads what happened in a run.
type RunHistory interface {
	// Events of a run, oldest first.
	Events(ctx context.Context, id run.ID) ([]run.Event, error)
	// Recorded returns the reply recorded under the key, and whether there is one.
	Recorded(ctx context.Context, id run.ID, key string) (Recorded, bool, error)
}

// Save is one change of a run.
type Save struct {
	Run      run.Run
	Events   []run.Event
	Recorded []Recorded
}

// Recorded is a reply kept for network retries: the same key with the same
// payload gets the same reply.
type Recorded struct {
	Key     string          // "nonce:<nonce>" or "seq:<question number>"
	Payload string          // digest of what was submitted
	Reply   json.RawMessage // a StepReply
}

// Drivers finds drivers by name; core/driverhost starts them when first called.
type Drivers interface {
	Describe(name string) (d driver.Descriptor, sha256 string, ok bool)
	Challenge(name string) (driver.Challenge, bool)
	Capability(name string) (driver.Capability, bool)
	// Warm starts drivers that will be called soon, in the background; those
	// that run cost nothing.
	Warm(ctx context.Context, names ...string)
}
