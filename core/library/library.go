package library

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Store holds what a database provides for the library. One type may implement all
// of it, or several types may share it.
type Store struct {
	Protocols Protocols
	Writer    ProtocolWriter
	Versions  ProtocolHistory
	Searcher  Searcher
	Vectors   Vectors
	Ratings   Ratings
}

// Options tune a library. The zero value is the documented default.
type Options struct {
	// ScoreThreshold drops weaker search matches. The default is 0.3.
	ScoreThreshold float64
	// SimilarThreshold is the score from which mint refuses a protocol as similar to another one. The default is 0.9.
	SimilarThreshold float64
	// Embedder enables comparison by meaning. Without it only words are compared.
	Embedder Embedder
	// Table returns the word vectors by which Similarity compares without an Embedder; nil,
	// or its result: only words are compared.
	Table func() *meaning.Table
	// EmbedBudget is how long a call waits for the Embedder. The default is 3 s.
	EmbedBudget time.Duration
	// Observer is notified of operations; optional.
	Observer Observer
	// Changed, unless it is nil, is called after protocols of a space were stored or
	// deleted. It is called concurrently and must return at once.
	Changed func(space string)
	// Audit is told who changed what; nil: nobody is.
	Audit *audit.Log
	// Clock provides the recorded times. The default is the clock of this machine.
	Clock *clock.Clock
}

// Library keeps protocols: it mints, changes, finds, rates, exports and imports
// them. Its methods may be called concurrently.
type Library struct {
	store  Store
	setups drivers.Setups
	opt    Options
	log    *slog.Logger

	catalog  *catalog
	meanings *meanings
	ratings  *rater
	finder   finder
	versions versions

	large gate
}

// gate holds a token for each large document that is being checked and stored: each
// takes many times its size in memory.
type gate chan struct{}

const (
	largeDocument  = 256 << 10 // bytes
	largeDocuments = 2         // at a time
)

// New returns a library. It does not use store and setups before the first call.
func New(store Store, setups drivers.Setups, opt Options, log *slog.Logger) *Library {
	opt.ScoreThreshold = cmp.Or(opt.ScoreThreshold, 0.3)
	opt.SimilarThreshold = cmp.Or(opt.SimilarThreshold, 0.9)
	opt.EmbedBudget = cmp.Or(opt.EmbedBudget, 3*time.Second)
	if opt.Clock == nil {
		opt.Clock = clock.System()
	}
	if opt.Observer == nil {
		opt.Observer = Silence{}
	}
	if opt.Changed != nil {
		store.Writer = noticed{store.Writer, opt.Changed}
	}
	k, m, r := newCatalog(store, opt), newMeanings(store.Vectors, opt, log), newRater(store.Ratings, opt.Observer, opt.Clock, log)
	return &Library{
		store: store, setups: setups, opt: opt, log: log, catalog: k, meanings: m, ratings: r,
		finder:   finder{catalog: k, searcher: store.Searcher, meanings: m, ratings: r, threshold: opt.ScoreThreshold},
		versions: versions{catalog: k, history: store.Versions},
		large:    make(gate, largeDocuments),
	}
}

// Close finishes the background writes. The store must be open until it returns.
// Later calls are served, but write nothing in the background. It may be called
// twice.
func (l *Library) Close() error {
	l.ratings.close()
	return nil
}

// Ready stores the built-in protocols before the first call that needs them.
// Starting the server touches nothing, because hosts start servers to probe them.
func (l *Library) Ready(ctx context.Context) error { return l.catalog.ready(ctx) }

// enter waits until a document of this size may be checked and stored. If err is nil, the caller
// must call leave exactly once.
func (g gate) enter(ctx context.Context, size int) (leave func(), err error) {
	if size <= largeDocument {
		return func() {}, nil
	}
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// FindStep resolves a URI that must name a step the caller can read.
func (l *Library) FindStep(ctx context.Context, c access.Caller, uri string) (protocol.Chain, int, error) {
	return l.catalog.step(ctx, c, uri)
}

// ChainOf returns the protocol that the URI names, also one that has been deleted:
// runs keep the steps as they were when they began. absent says why the URI cannot
// be begun any more.
func (l *Library) ChainOf(ctx context.Context, c access.Caller, uri string) (chain protocol.Chain, absent error, err error) {
	return l.catalog.chainOf(ctx, c, uri)
}

// EachListed calls do with the outline of every protocol of the space, in the
// order of List.
func (l *Library) EachListed(ctx context.Context, space string, do func(protocol.Chain) error) error {
	return l.catalog.each(ctx, space, do)
}

// Rate rates a step in the background. Its grade follows from the outcome.
func (l *Library) Rate(r StepRating) { l.ratings.rate(r) }

// RatingsLost is how many ratings of steps could not be written since the start.
func (l *Library) RatingsLost() int64 { return l.ratings.lostRatings() }

// Similarity compares two texts by the Embedder, or by the Table without one. They are
// compared by words if the endpoint fails or the table knows too little of them.
func (l *Library) Similarity(ctx context.Context, in driver.Similarity) driver.SimilarityValue {
	return l.meanings.similarity(ctx, in)
}

// FillVectors embeds all stored passages, and those that are minted later, until
// the context ends. The store knows which are missing, so a crash loses nothing.
// While the endpoint is down it waits, and it gives up passages that the endpoint
// refuses. It is called once, by a long-running process; without an embedder it
// returns at once.
func (l *Library) FillVectors(ctx context.Context) { l.meanings.fillForever(ctx) }

// Embeddings asks the endpoint for a vector and the store for missing ones.
// Without an embedder the model is empty.
func (l *Library) Embeddings(ctx context.Context) (EmbeddingState, error) {
	return l.meanings.state(ctx)
}
