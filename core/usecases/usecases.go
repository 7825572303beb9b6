// Package usecases puts the use cases on the stores of one database together: about
// protocols, about runs, about runs as records, and about what people allow.
package usecases

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Store is what a database offers; one type may implement it whole, or several may share it.
type Store struct {
	Protocols   library.Protocols
	Writer      library.ProtocolWriter
	Versions    library.ProtocolHistory
	Searcher    library.Searcher
	Vectors     library.Vectors
	Ratings     library.Ratings
	Runs        runs.Runs
	Index       runs.Index
	Archive     archive.RunArchive
	History     runs.History
	Eraser      archive.Eraser    // nil: runs cannot be redacted
	Files       archive.Files     // nil: the database returns free space by itself
	Declines    declines.Store    // nil: what people declined is remembered in its own run only
	Acceptances acceptances.Store // nil: nobody is asked what drivers may do, and nothing is accepted
}

// Options tune the use cases. The zero value is the documented default.
type Options struct {
	director.Options
	// RunTTL is how long a run may stay unattested. The default is 7 days.
	RunTTL time.Duration
	// UntouchedTTL ends runs that never advanced and wait for nobody. The default is 1 day.
	UntouchedTTL time.Duration
	// RunKeep is how long runs that have ended are kept. The default is for ever.
	RunKeep time.Duration
	// Handover is notified of where runs stand; may be nil.
	Handover runs.Handover
	// DeclineTTL is how long only a person can approve what a person declined,
	// whatever run asks; zero: not beyond the run.
	DeclineTTL time.Duration
	// ScoreThreshold drops weaker search matches. The default is 0.3.
	ScoreThreshold float64
	// SimilarThreshold refuses to mint what is this close to another protocol. The default is 0.9.
	SimilarThreshold float64
	// Embedder compares meanings besides words; nil: only words are compared.
	Embedder library.Embedder
	// Table returns the word vectors by which texts are compared without an Embedder; nil, or
	// its result: only words are compared.
	Table func() *meaning.Table
	// EmbedBudget is how long a call waits for the Embedder. The default is 3 s.
	EmbedBudget time.Duration
	// Changed is called after protocols of a space were stored or deleted; may be nil. It
	// is called concurrently and must return at once.
	Changed func(space string)
}

// UseCases are safe for concurrent use.
type UseCases struct {
	Runs        *director.Engine
	Library     *library.Library
	Archive     *archive.Archive
	Acceptances *acceptances.Acceptances
	Offers      *offers.Offers
}

// New returns the use cases. It touches neither store nor setups until they are called.
func New(store Store, setups drivers.Setups, opt Options, log *slog.Logger) *UseCases {
	opt.Clock = cmp.Or(opt.Clock, clock.System())
	l := library.New(
		library.Store{
			Protocols: store.Protocols, Writer: store.Writer, Versions: store.Versions, Searcher: store.Searcher,
			Vectors: store.Vectors, Ratings: store.Ratings,
		}, setups,
		library.Options{
			ScoreThreshold: opt.ScoreThreshold, SimilarThreshold: opt.SimilarThreshold, Embedder: opt.Embedder, Table: opt.Table,
			EmbedBudget: opt.EmbedBudget, Observer: opt.Observer, Changed: opt.Changed, Audit: opt.Audit, Clock: opt.Clock,
		}, log,
	)
	k := runs.New(
		runs.Store{Runs: store.Runs, Index: store.Index, History: store.History},
		runs.Options{RunTTL: opt.RunTTL, UntouchedTTL: opt.UntouchedTTL, Handover: opt.Handover, Clock: opt.Clock},
	)
	a := archive.New(
		archive.Store{
			Protocols: store.Protocols, Runs: store.Runs, History: store.History, Archive: store.Archive, Eraser: store.Eraser, Files: store.Files,
		}, k, l, setups, archive.Options{RunKeep: opt.RunKeep, Audit: opt.Audit, Clock: opt.Clock},
	)
	g := acceptances.New(store.Acceptances, opt.Audit, opt.Clock)
	o := offers.New(l, k, g, offers.Protocols{Protocols: store.Protocols, ProtocolHistory: store.Versions}, setups)
	e := director.New(director.Parts{
		Library: l, Protocols: store.Protocols, Runs: k, History: store.History, Archive: a, Acceptances: g, Offers: o,
		Declines: declines.New(store.Declines, opt.Clock, opt.DeclineTTL), Setups: setups,
	}, opt.Options, log)
	return &UseCases{Runs: e, Library: l, Archive: a, Acceptances: g, Offers: o}
}

// Close writes what waits to be written and ends. It may be called twice.
func (u *UseCases) Close() error { return u.Library.Close() }
