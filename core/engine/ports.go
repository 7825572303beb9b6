package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// The interfaces that the engine calls. Every method may wait, honours its
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
	// RunOfNonce returns the id of the run that has or had the nonce.
	RunOfNonce(ctx context.Context, nonce string) (run.ID, error)
	// LiveRuns lists the principal's live runs, last changed first.
	LiveRuns(ctx context.Context, principal string) ([]run.Summary, error)
	// Pinned returns the chain a run was pinned to, by Run.Pin.
	Pinned(ctx context.Context, digest string) (protocol.Chain, error)
}

// RunArchive goes over runs that may have ended.
type RunArchive interface {
	// AllRuns lists the principal's runs, the last begun one first. next is ""
	// at the end; a cursor stays good whatever changes elsewhere in the list.
	AllRuns(ctx context.Context, q RunQuery) (runs []run.Summary, next string, err error)
	// Overdue lists live runs, whoever's they are, that began before the one
	// time or stand untouched at their first step since before the other.
	Overdue(ctx context.Context, began, untouched time.Time, limit int) ([]run.ID, error)
	// RemoveEnded removes runs that are not live and were last changed before
	// the time, with their events and recorded replies: at most limit, the
	// longest ended first, durably and all or nothing. It returns how many.
	RemoveEnded(ctx context.Context, before time.Time, limit int) (int, error)
}

// RunQuery says which runs to list.
type RunQuery struct {
	Principal string
	State     run.State // empty: any
	Cursor    string    // "": from the start
	Limit     int       // at least 1
}

// RunHistory reads what happened in a run.
type RunHistory interface {
	// Events of a run, oldest first.
	Events(ctx context.Context, id run.ID) ([]run.Event, error)
	// Recorded returns the reply recorded under the key, and whether there is one.
	Recorded(ctx context.Context, id run.ID, key string) (Recorded, bool, error)
}

// RunEraser erases values from runs, the one exception from events that never
// change.
type RunEraser interface {
	// EraseRun stores a changed run as SaveRun does, and with it what erase makes
	// of each event that the run had before; its recorded replies go. erase must
	// depend on nothing but the event.
	EraseRun(ctx context.Context, s Save, erase func(run.Event) run.Event) error
	// Scrub makes what was erased unreadable in the files of the database, too.
	// The error says what may still be read.
	Scrub(ctx context.Context) error
	// Unscrubbed lists the runs whose erased values may still be in the files,
	// because Scrub failed or was killed. A store resumes that when it is opened.
	Unscrubbed(ctx context.Context) ([]run.ID, error)
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
