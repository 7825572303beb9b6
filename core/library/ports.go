package library

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// The interfaces that the library calls. Every method may block, honours its
// context, and is called concurrently. A missing item is a fault.NotFound error,
// and an unreachable store a fault.StoreUnavailable one.

// Protocols reads protocols. Every read names the spaces it may see; if several
// have the item, the first one wins.
type Protocols interface {
	// StepChain returns the chain that holds the step, and the step's index in Steps.
	StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error)
	// Chain returns a chain by its id.
	Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error)
	// List returns outlines (chains without the texts of their steps) of one space,
	// ordered by the bytes of the title and then of the id: at most limit (at least
	// 1), after the cursor ("": from the start). next is "" at the end. A cursor is
	// opaque and stays valid whatever changes elsewhere in the list; an invalid one
	// is fault.InvalidArgument.
	List(ctx context.Context, space, cursor string, limit int) (chains []protocol.Chain, next string, err error)
	// Count returns the exact number of protocols in the space.
	Count(ctx context.Context, space string) (int, error)
	// Former finds the chain that used to have a step which no chain of the space
	// has any more. NotFound: no chain ever had it.
	Former(ctx context.Context, spaces []string, stepUUID string) (Former, error)
}

// Former is the chain that used to have a step.
type Former struct {
	Chain   protocol.Chain // the outline of its last version
	Deleted bool           // the chain is deleted, too
}

// ProtocolWriter changes protocols. Each call is atomic, durable when it
// returns, and visible to the next read.
type ProtocolWriter interface {
	// SaveChains stores all the changes or none and returns the new revisions, in
	// order. If the stored revision differs from Change.Replaces, the error is
	// fault.DuplicateChain if Replaces is 0 and fault.Conflict otherwise. The
	// Revision of the given chains is ignored.
	SaveChains(ctx context.Context, changes []Change) ([]int64, error)
	// DeleteChain removes a chain. Its history stays, and the deletion gets a
	// revision. fault.Conflict: the stored revision is not replaces.
	DeleteChain(ctx context.Context, space, id string, replaces int64) error
}

// Change is a chain to store.
type Change struct {
	Chain protocol.Chain
	// Replaces is the revision that is stored now, or 0 for none or a deleted chain.
	Replaces int64
}

// Changes lists what changed in the library, in all spaces, for programs that keep a part
// of it in memory.
type Changes interface {
	// LastChange returns the number of the last change, or a later one. It is cheap.
	LastChange(ctx context.Context) (int64, error)
	// Changed returns the last change of each protocol after the number, at most limit
	// of them, in the order of their numbers. A change of the vectors of a protocol counts.
	// Changes become visible in that order: none appears before one that was returned.
	Changed(ctx context.Context, since int64, limit int) ([]Changed, error)
}

// Changed is the last change of a protocol.
type Changed struct {
	Number  int64
	Space   string
	ChainID string
	Chain   *protocol.Chain // nil: it is deleted, or Damage says why it cannot be read
	Damage  error
}

// ProtocolHistory reads older versions of chains.
type ProtocolHistory interface {
	// Versions lists the versions of a chain, newest first, the stored one included.
	// It finds a deleted chain if none of the spaces has an existing one. At least
	// the newest 100 versions are kept.
	Versions(ctx context.Context, spaces []string, id string) ([]Version, error)
	// Version returns the chain as it was at one of its Versions. The revision of a
	// deletion is not found.
	Version(ctx context.Context, spaces []string, id string, revision int64) (protocol.Chain, error)
}

// Version is one state of a chain in its history.
type Version struct {
	Revision  int64     `json:"revision"`
	Title     string    `json:"title"`
	StepCount int       `json:"step_count"`
	ModelID   string    `json:"model_id,omitempty"`
	SavedAt   time.Time `json:"saved_at"`          // by the store's clock
	Deleted   bool      `json:"deleted,omitempty"` // this revision is a deletion
}

// Searcher finds protocols. What was stored or deleted before a call counts.
type Searcher interface {
	// Search compares a request with all protocols of its spaces.
	Search(ctx context.Context, q Query) (search.Answer, error)
	// Named finds the protocols of the spaces that have the title as a name, or one that
	// looks like it or has its words, best first. Meanings do not count.
	Named(ctx context.Context, title string, spaces []string) ([]search.Found, error)
}

// Query is what a search asks for.
type Query struct {
	search.Request
	Model string // that made the vectors of the texts; empty: no model did
}

// Embedding is the meaning of a text as a model sees it.
type Embedding struct {
	Model  string
	Vector []float32
}

// Vectors keeps embeddings of passages (protocol.Chain.Passage) beside the
// protocols, by model and by hash (protocol.PassageHash).
type Vectors interface {
	// Known returns the stored vectors with these hashes.
	Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error)
	// Missing lists passages of stored chains that have no vector of the model,
	// at most limit.
	Missing(ctx context.Context, model string, limit int) ([]Passage, error)
	// SaveVectors stores vectors by hash. Vectors whose passage is no longer stored
	// are dropped. A new model or vector length eventually replaces all stored
	// vectors: Missing then lists everything. fault.InvalidArgument: vectors of
	// different lengths, or one without a direction (empty, zeros, NaN, infinite).
	SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error
}

// Passage is a text to embed.
type Passage struct {
	Hash string
	Text string
}

// Ratings keeps the ratings of steps by UUID. They survive new versions of the
// chain.
type Ratings interface {
	// Rate adds each of the ratings atomically. Ratings of steps that the space does
	// not have are ignored.
	Rate(ctx context.Context, space string, ratings []Rating) error
	// Quality returns the quality of the steps of the space. Steps without a rating
	// are left out.
	Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error)
}

// Outcome is the kind of a rating.
type Outcome string

// The outcomes. Stored is not counted: it only sets a score.
const (
	OutcomeStored    Outcome = "stored"
	OutcomeRetrieved Outcome = "retrieved"
	OutcomeSuccess   Outcome = "success"
	OutcomePartial   Outcome = "partial"
	OutcomeFailure   Outcome = "failure"
)

// Rating is one or several equal ratings of a step.
type Rating struct {
	Step    string // UUID
	Outcome Outcome
	Times   int64   // how often; less than 1: once
	Bonus   float64 // added once to the bonus of the step
	// Score and Tier replace those of the step; an empty Tier keeps both.
	Score int
	Tier  string
	// Rater, Context and At replace those of the step; an empty Rater keeps all
	// three.
	Rater   string
	Context string
	At      time.Time
}

// Embedder turns texts into vectors.
type Embedder interface {
	// Embed returns a vector for each text, in order. Without texts it only reports
	// the model, asking the endpoint if it is not known yet.
	Embed(ctx context.Context, texts []string) (Embedded, error)
}

// Embedded is the result of an Embedder.
type Embedded struct {
	Model   string // provider/model/dimension
	Vectors [][]float32
}
