package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
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
	Runs      Runs
	Index     RunIndex
	Archive   RunArchive
	History   RunHistory
	Eraser    RunEraser // nil: runs cannot be redacted
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
	Handover Handover
	// ApprovalTTL is how long a yes may be used; zero: 1 hour.
	ApprovalTTL time.Duration
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
	// Observer hears what was done; nil: nobody does.
	Observer Observer
	// SolutionFields are the challenge types whose evidence has a field of its
	// own in the solutions that clients are told of; any other is evidence.
	SolutionFields []string
	// ApprovalURL is the address of an approval page by run and secret, empty
	// while there is none; nil: approvals have no page. Called concurrently.
	ApprovalURL func(id run.ID, secret string) string
	// Key returns the server's key, from which idempotency keys of drivers' calls
	// are made; nil: a random one. Called concurrently, at most once.
	Key func() ([32]byte, error)
	// Approvers may answer approvals of runs that are not theirs, by principal.
	Approvers []string
	// Clock is the time by which runs are recorded and end; nil: this machine's.
	Clock *clock.Clock
}

// Engine is the use cases. Its methods may be called concurrently.
type Engine struct {
	*library.Library
	store  Store
	setups drivers.Setups
	opt    Options
	log    *slog.Logger

	callKey func() ([]byte, error) // makes idempotency keys

	claims  claims
	hourly  hourly
	answers answers
}

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
			EmbedBudget: opt.EmbedBudget, Observer: opt.Observer, Clock: opt.Clock,
		}, log,
	)
	return &Engine{Library: l, callKey: sync.OnceValues(callKey(opt.Key)), store: store, setups: setups, opt: opt, log: log}
}

func newNonce() string {
	b := make([]byte, 16)
	// crypto/rand.Read never fails (Go 1.24).
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// read loads a run for a caller.
func (e *Engine) read(ctx context.Context, id run.ID) (run.Run, error) {
	r, err := e.store.Runs.Run(ctx, id)
	if fault.CodeOf(err) == fault.NotFound {
		return run.Run{}, noRun(id)
	}
	return r, err
}

// usable checks that a run is the caller's, ends it if its time has passed, and
// returns it with the chain it is pinned to.
func (e *Engine) usable(ctx context.Context, c access.Caller, r run.Run) (run.Run, protocol.Chain, error) {
	if r.Principal != c.Principal {
		// Not told apart from a run that does not exist.
		return run.Run{}, protocol.Chain{}, noRun(r.ID)
	}
	chain, err := e.store.Index.Pinned(ctx, r.Pin)
	if err != nil {
		return run.Run{}, protocol.Chain{}, fmt.Errorf("load the protocol of run %s: %w", r.ID, err)
	}
	if !c.Reads(chain.Space) {
		// Left the group meanwhile: what is stored there is not theirs to see any more.
		return run.Run{}, protocol.Chain{}, noRun(r.ID)
	}
	if r.State.Live() && e.expired(r.Summary()) {
		if r, err = e.expire(ctx, r, chain); err != nil {
			return run.Run{}, protocol.Chain{}, err
		}
	}
	return r, chain, nil
}

func noRun(id run.ID) *fault.Error {
	return fault.New(fault.NotFound, "no run %q", plain.Clip(string(id), 80)).
		WithNext("call kairos_search to find the protocol, then kairos_begin to open a run of it")
}

// setBack reports whether the clock shows an earlier time than it showed before:
// it was set back while no server ran, or another server's clock is ahead.
func (e *Engine) setBack(before time.Time) bool {
	return e.opt.Clock.Now().Add(clock.Tolerance).Before(before)
}

func (e *Engine) expired(s run.Summary) bool {
	now := e.opt.Clock.Settled()
	if now.Sub(s.CreatedAt) > e.opt.RunTTL {
		return true
	}
	return s.State == run.Open && s.StepIndex == 1 && now.Sub(s.UpdatedAt) > e.opt.UntouchedTTL
}

func (e *Engine) expire(ctx context.Context, r run.Run, chain protocol.Chain) (run.Run, error) {
	ev := run.Event{Kind: run.Expired, Run: r.ID, Step: r.Step.Index, Reason: "time to live has passed"}
	ev.At, ev.Clock = r.Stamp(e.opt.Clock.Now())
	next, err := run.Apply(r, ev)
	if err != nil {
		return r, err
	}
	if err := e.store.Runs.SaveRun(ctx, Save{Run: next, Events: []run.Event{ev}}); err != nil {
		return r, fmt.Errorf("end run %s: %w", r.ID, err)
	}
	next.Revision++
	e.moved(next, chain)
	return next, nil
}

// live lists the caller's runs that can go on, last changed first.
func (e *Engine) live(ctx context.Context, c access.Caller) ([]run.Summary, error) {
	all, err := e.store.Index.LiveRuns(ctx, c.Principal)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	live := all[:0]
	for _, s := range all {
		if !e.expired(s) {
			live = append(live, s)
		}
	}
	return live, nil
}

func asFault(err error, f **fault.Error) bool {
	return err != nil && errors.As(err, f) && (*f).Code != fault.Conflict
}

// impossible turns a refusal of the state machine into what the caller may see.
func impossible(err error) error {
	switch {
	case errors.Is(err, run.ErrDeclined):
		return fault.Wrap(err, fault.UserDeclined, "a person said no to this step; only the person can change that, in the way they were asked")
	case errors.Is(err, run.ErrUnapproved):
		return fault.Wrap(err, fault.ApprovalUnavailable, "this step needs a person's approval first")
	case errors.Is(err, run.ErrStale):
		return fault.Wrap(err, fault.Conflict, "the question was answered or asked again meanwhile")
	}
	return err
}
