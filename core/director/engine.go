package director

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Store is what a database offers the engine; one type may implement it whole,
// or several may share it.
type Store struct {
	Protocols library.Protocols
	Writer    library.ProtocolWriter
	Versions  library.ProtocolHistory
	Searcher  library.Searcher
	Vectors   library.Vectors
	Ratings   library.Ratings
	Runs      runs.Runs
	Index     runs.Index
	Archive   archive.RunArchive
	History   runs.History
	Eraser    archive.Eraser // nil: runs cannot be redacted
	Files     archive.Files  // nil: the database returns free space by itself
	Declines  declines.Store // nil: what people declined is remembered in its own run only
	Grants    grants.Store   // nil: nobody is asked what drivers may do, and nothing is allowed
}

// Options tune an engine. The zero value is the documented default.
type Options struct {
	// RunTTL is how long a run may stay unattested; zero: 7 days.
	RunTTL time.Duration
	// UntouchedTTL ends runs that never advanced and wait for nobody; zero: 1 day.
	UntouchedTTL time.Duration
	// RunKeep is how long runs that have ended are kept; zero: for ever.
	RunKeep time.Duration
	// Handover hears where runs stand; nil: nobody does.
	Handover runs.Handover
	// ApprovalTTL is how long an approval may be used; zero: 1 hour.
	ApprovalTTL time.Duration
	// DeclineTTL is how long only a person can approve what a person declined,
	// whatever run asks; zero: not beyond the run.
	DeclineTTL time.Duration
	// ScoreThreshold drops weaker search matches; zero: 0.3.
	ScoreThreshold float64
	// SimilarThreshold refuses to mint what is this close to another protocol; zero: 0.9.
	SimilarThreshold float64
	// RequireComplete makes attest refuse a run with unsolved steps.
	RequireComplete bool
	// Embedder compares meanings besides words; nil: only words are compared.
	Embedder library.Embedder
	// EmbedBudget is how long a call waits for the Embedder; zero: 3 s.
	EmbedBudget time.Duration
	// Budgets bound what language models are asked; zero: they are not.
	Budgets Budgets
	// Observer is notified of completed operations; may be nil.
	Observer Observer
	// Changed is called after protocols of a space were stored or deleted; nil: not
	// needed. It is called concurrently and must return at once.
	Changed func(space string)
	// SolutionFields are the challenge types whose evidence has a field of its
	// own in the solutions that clients are told of; any other is evidence.
	SolutionFields []string
	// ApprovalURL is the address of an approval page by run and secret, empty
	// while there is none; nil: approvals have no page. Called concurrently.
	ApprovalURL func(id run.ID, secret string) string
	// Keys returns the server's keys: the first one makes idempotency keys of drivers' calls
	// and secrets of approval links, and links of the others still work; nil: a
	// random one. Called once, unless it fails.
	Keys func() ([][32]byte, error)
	// Approvers may answer approvals of runs that are not theirs, by principal.
	Approvers []string
	// Clock is the time by which runs are recorded and end; nil: this machine's.
	Clock *clock.Clock
}

// Engine drives runs. Its methods may be called concurrently.
type Engine struct {
	// Library, Archive and Grants are the use cases about protocols, about runs as
	// records and about what people allowed, which share the stores of the engine.
	Library *library.Library
	Archive *archive.Archive
	Grants  *grants.Grants

	*services
	// Offers are what drivers could do, if a person allows it.
	Offers *offers.Offers
	setups drivers.Setups
}

// services are what use cases work with.
type services struct {
	library  *library.Library
	grants   *grants.Grants
	runs     *runs.Keeper
	declines *declines.Declines
	offers   *offers.Offers
	store    Store
	opt      Options
	log      *slog.Logger

	secrets  secrets.Secrets
	hourly   hourly
	answers  answers
	contents *cache.Cache[string, string] // content digests of protocols by their pins
}

// maxContents is how many bytes of content digests are kept.
const maxContents = 1 << 20

// New returns an engine. It touches neither store nor setups until called.
func New(store Store, setups drivers.Setups, opt Options, log *slog.Logger) *Engine {
	opt.RunTTL = cmp.Or(opt.RunTTL, 7*24*time.Hour)
	opt.UntouchedTTL = cmp.Or(opt.UntouchedTTL, 24*time.Hour)
	opt.ApprovalTTL = cmp.Or(opt.ApprovalTTL, time.Hour)
	if opt.Clock == nil {
		opt.Clock = clock.System()
	}
	if opt.Observer == nil {
		opt.Observer = silence{}
	}
	l := library.New(
		library.Store{
			Protocols: store.Protocols, Writer: store.Writer, Versions: store.Versions, Searcher: store.Searcher,
			Vectors: store.Vectors, Ratings: store.Ratings,
		}, setups,
		library.Options{
			ScoreThreshold: opt.ScoreThreshold, SimilarThreshold: opt.SimilarThreshold, Embedder: opt.Embedder,
			EmbedBudget: opt.EmbedBudget, Observer: opt.Observer, Changed: opt.Changed, Clock: opt.Clock,
		}, log,
	)
	k := runs.New(
		runs.Store{Runs: store.Runs, Index: store.Index, History: store.History},
		runs.Options{RunTTL: opt.RunTTL, UntouchedTTL: opt.UntouchedTTL, Handover: opt.Handover, Clock: opt.Clock},
	)
	a := archive.New(
		archive.Store{
			Protocols: store.Protocols, Runs: store.Runs, History: store.History, Archive: store.Archive, Eraser: store.Eraser, Files: store.Files,
		}, k, l, setups, archive.Options{RunKeep: opt.RunKeep, Clock: opt.Clock},
	)
	g := grants.New(store.Grants, opt.Clock)
	o := offers.New(l, k, g, store.Versions, setups)
	return &Engine{Library: l, Archive: a, Grants: g, Offers: o, setups: setups, services: &services{
		library: l, grants: g, offers: o, runs: k, declines: declines.New(store.Declines, opt.Clock, opt.DeclineTTL), store: store, opt: opt, log: log,
		secrets: secrets.New(opt.Keys), contents: cache.New[string, string](maxContents),
	}}
}

// Close writes what waits to be written and ends. It may be called twice.
func (e *Engine) Close() error { return e.Library.Close() }

func newNonce(id run.ID) string {
	var random [12]byte
	// crypto/rand.Read never fails (Go 1.24).
	_, _ = rand.Read(random[:])
	return run.Nonce(id, random)
}

func newSalt() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func asFault(err error, f **fault.Error) bool {
	return err != nil && errors.As(err, f) && (*f).Code != fault.Conflict
}

// impossible turns a refusal of the state machine into what the caller may see.
func impossible(err error) error {
	switch {
	case errors.Is(err, run.ErrDeclined):
		return fault.Wrap(err, fault.UserDeclined, "a person declined this step; only the person can change that, in the way they were asked")
	case errors.Is(err, run.ErrUnapproved):
		return fault.Wrap(err, fault.ApprovalUnavailable, "this step needs a person's approval first")
	case errors.Is(err, run.ErrStale):
		return fault.Wrap(err, fault.Conflict, "the question was answered or asked again meanwhile")
	}
	return err
}
