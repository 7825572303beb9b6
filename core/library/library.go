package library

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
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

	seeding chan struct{} // holds one token: who has it may store the built-in protocols
	seeded  atomic.Bool   // they are stored

	ratings *rater

	missing chan struct{}          // wakes FillVectors
	model   atomic.Pointer[string] // that embedded last
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
	l := &Library{
		store: store, setups: setups, opt: opt, log: log, seeding: make(chan struct{}, 1),
		ratings: newRater(store.Ratings, opt.Observer, log), missing: make(chan struct{}, 1),
	}
	l.seeding <- struct{}{}
	return l
}

// Close writes what is still to be written in the background and waits for it.
// The store must be open until then. Calls that come later are served, but
// write nothing in the background. It may be called twice.
func (l *Library) Close() error {
	l.ratings.close()
	return nil
}

// withSetup is the library with the setup that one use case holds from its start
// to its end, so that drivers and tree never change in the middle of a call.
type withSetup struct {
	*Library
	drivers.Setup
	judged *judged
}

// hold takes the present setup for one use case, which calls release when it ends.
func (l *Library) hold() (w withSetup, release func()) {
	s, release := l.setups.Hold()
	return withSetup{Library: l, Setup: s, judged: new(judged)}, release
}
