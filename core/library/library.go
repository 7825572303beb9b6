package library

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Store is what a database offers the library; one type may implement it
// whole, or several may share it.
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
	// ScoreThreshold drops weaker search matches; zero: 0.3.
	ScoreThreshold float64
	// SimilarThreshold refuses to mint what is this close to another protocol; zero: 0.9.
	SimilarThreshold float64
	// Embedder compares meanings besides words; nil: only words are compared.
	Embedder Embedder
	// EmbedBudget is how long a call waits for the Embedder; zero: 3 s.
	EmbedBudget time.Duration
	// Observer hears what was done; nil: nobody does.
	Observer Observer
	// Clock is the time by which protocols are recorded; nil: this machine's.
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
}

// New returns a library. It touches neither store nor setups until called.
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
	k, m, r := newCatalog(store, opt), newMeanings(store.Vectors, opt, log), newRater(store.Ratings, opt.Observer, opt.Clock, log)
	return &Library{
		store: store, setups: setups, opt: opt, log: log, catalog: k, meanings: m, ratings: r,
		finder:   finder{catalog: k, searcher: store.Searcher, meanings: m, ratings: r, threshold: opt.ScoreThreshold},
		versions: versions{catalog: k, history: store.Versions},
	}
}

// Close writes what is still to be written in the background and waits for it.
// The store must be open until then. Calls that come later are served, but
// write nothing in the background. It may be called twice.
func (l *Library) Close() error {
	l.ratings.close()
	return nil
}

// Ready stores the built-in protocols before the first call that could want
// them. A start alone touches nothing, because hosts start servers to probe them.
func (l *Library) Ready(ctx context.Context) error { return l.catalog.ready(ctx) }

// FindStep resolves a URI that must name a step the caller can read.
func (l *Library) FindStep(ctx context.Context, c access.Caller, uri string) (protocol.Chain, int, error) {
	return l.catalog.step(ctx, c, uri)
}

// ChainOf is the protocol that the URI names, for runs of it: they keep the
// steps as they were when they began, whatever became of the protocol.
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

// Similarity compares two texts by meaning, or by words where nothing embeds
// or the endpoint fails.
func (l *Library) Similarity(ctx context.Context, in driver.Similarity) driver.SimilarityValue {
	return l.meanings.similarity(ctx, in)
}

// FillVectors gives every stored passage its vector, and those that are minted
// later, until the context ends. The store says which are missing, so nothing
// is lost when the process dies. While the endpoint is down it waits. It is
// called once, by a process that lives for a while; without an embedder it
// returns at once.
func (l *Library) FillVectors(ctx context.Context) { l.meanings.fillForever(ctx) }

// Embeddings asks the endpoint for a vector and the store for missing ones.
// Without an embedder the model is empty.
func (l *Library) Embeddings(ctx context.Context) (EmbeddingState, error) {
	return l.meanings.state(ctx)
}
