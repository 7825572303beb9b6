package library

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// The interfaces that the library calls. Every method may wait, honours its
// context, and is called concurrently. "Not there" is a fault.NotFound error, and
// a store that cannot be reached at present a fault.StoreUnavailable one.

// Protocols keeps protocols. Every read names the spaces it may see; of several
// that have what is asked for, the first one wins.
type Protocols interface {
	// StepChain returns the chain that holds the step, and the step's index in Steps.
	StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error)
	// Chain returns a chain by its id.
	Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error)
	// List returns outlines, which are chains without their steps' texts, of one
	// space, ordered by the bytes of the title and then of the id: at most limit
	// (at least 1), after the cursor ("": from the start). next is "" at the end.
	// A cursor is opaque and stays good whatever changes elsewhere in the list;
	// one that is none is fault.InvalidArgument.
	List(ctx context.Context, space, cursor string, limit int) (chains []protocol.Chain, next string, err error)
	// Count is how many protocols are in the space, exactly.
	Count(ctx context.Context, space string) (int, error)
	// Former finds the chain that held a step which no chain of the space holds
	// any more. NotFound: never heard of.
	Former(ctx context.Context, spaces []string, stepUUID string) (Former, error)
}

// Former is the chain that once held a step.
type Former struct {
	Chain   protocol.Chain // the outline of its last version
	Deleted bool           // the chain is gone as well
}

// ProtocolWriter changes protocols. Each call is atomic, durable when it
// returns, and visible to the next read.
type ProtocolWriter interface {
	// SaveChains stores all the changes or none and returns the new revisions,
	// in order. Where the stored revision is not Change.Replaces, it is
	// fault.DuplicateChain if that is 0 and fault.Conflict otherwise. The
	// Revision that a chain brings along is ignored.
	SaveChains(ctx context.Context, changes []Change) ([]int64, error)
	// DeleteChain removes a chain; its history stays, and the deletion takes a
	// revision. fault.Conflict: the stored revision is not replaces.
	DeleteChain(ctx context.Context, space, id string, replaces int64) error
}

// Change is a chain to store.
type Change struct {
	Chain protocol.Chain
	// Replaces is the revision that is stored now; 0: none is, a deleted one
	// being none.
	Replaces int64
}

// ProtocolHistory reads what chains were before.
type ProtocolHistory interface {
	// Versions of a chain, newest first, the stored one included; also of a
	// deleted chain, where no space has one that is not. At least the newest 100
	// are kept.
	Versions(ctx context.Context, spaces []string, id string) ([]Version, error)
	// Version returns the chain as it was at one of its Versions; a revision
	// that is a deletion is not found.
	Version(ctx context.Context, spaces []string, id string, revision int64) (protocol.Chain, error)
}

// Version is one state of a chain in its history.
type Version struct {
	Revision  int64
	Title     string
	StepCount int
	ModelID   string
	SavedAt   time.Time // by the store's clock
	Deleted   bool      // this revision is a deletion
}

// Searcher finds protocols.
type Searcher interface {
	// Search returns hits, one a chain, best first. Scores are 0..1: an exact
	// title is at least 0.9, a query without a match has no hits.
	Search(ctx context.Context, q Query) ([]Hit, error)
}

// Query is what a search asks for.
type Query struct {
	Text   string
	Spaces []string
	Limit  int // of hits
	// Embedding of Text; nil: only words are compared.
	Embedding *Embedding
	Explain   bool // fill Hit.Why
}

// Embedding is the meaning of a text as a model sees it.
type Embedding struct {
	Model  string
	Vector []float32
}

// Hit is one chain that matches a search.
type Hit struct {
	Chain protocol.Chain // an outline
	Step  int            // index in Steps of the step that matched best; 0 for the title
	Score float64
	Why   []Match // with Query.Explain
}

// Match is one reason why a chain was found.
type Match struct {
	Ranker string  `json:"ranker"`          // words, prefix, typo or vector
	Field  string  `json:"field,omitempty"` // title, slug, label, tags, text or description; empty for vector
	Step   int     `json:"step"`            // index in Steps
	Asked  string  `json:"asked,omitempty"` // the word of the query
	Found  string  `json:"found,omitempty"` // the word that was taken for it
	Score  float64 `json:"score"`
}

// Vectors keeps embeddings of passages (protocol.Chain.Passage) beside the
// protocols, by model and by hash (protocol.PassageHash).
type Vectors interface {
	// Known returns those of the vectors that are stored.
	Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error)
	// Missing lists passages of stored chains that have no vector of the model,
	// at most limit.
	Missing(ctx context.Context, model string, limit int) ([]Passage, error)
	// SaveVectors stores vectors by hash; those whose passage is not stored any
	// more are dropped. Another model or length than the stored vectors have
	// replaces them all in time: Missing then lists everything.
	// fault.InvalidArgument: vectors of several lengths, or one that has no
	// direction (empty, zeros, NaN, infinite).
	SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error
}

// Passage is a text to embed.
type Passage struct {
	Hash string
	Text string
}

// Ratings keeps how steps did, by the step's UUID; they outlive new versions
// of the chain.
type Ratings interface {
	// Rate adds each of the ratings atomically; those of steps that the space
	// does not hold are ignored.
	Rate(ctx context.Context, space string, ratings []Rating) error
	// Quality returns what is known of the steps of the space; a step without
	// a rating is left out.
	Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error)
}

// Outcome is what a rating counts.
type Outcome string

// The outcomes. Stored counts nothing: it only brings a score.
const (
	OutcomeStored    Outcome = "stored"
	OutcomeRetrieved Outcome = "retrieved"
	OutcomeSuccess   Outcome = "success"
	OutcomePartial   Outcome = "partial"
	OutcomeFailure   Outcome = "failure"
)

// Rating is how a step did.
type Rating struct {
	Step    string // UUID
	Outcome Outcome
	Times   int64   // that it was so; less than 1: once
	Bonus   float64 // added to the step's, once
	// Score and Tier replace the step's; an empty Tier leaves both.
	Score int
	Tier  string
	// Rater, Context and At replace the step's; an empty Rater leaves all three.
	Rater   string
	Context string
	At      time.Time
}

// Embedder turns texts into vectors.
type Embedder interface {
	// Embed returns a vector for each text, in order. Without texts it only
	// says which model it is, asking the endpoint if nobody has yet.
	Embed(ctx context.Context, texts []string) (Embedded, error)
}

// Embedded is what an Embedder made of texts.
type Embedded struct {
	Model   string // provider/model/dimension
	Vectors [][]float32
}
