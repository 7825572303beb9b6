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
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Store is what a database offers the engine; one type may implement it whole,
// or several may share it.
type Store struct {
	Protocols Protocols
	Writer    ProtocolWriter
	Versions  ProtocolHistory
	Searcher  Searcher
	Vectors   Vectors
	Ratings   Ratings
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
	Embedder Embedder
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
	store  Store
	setups drivers.Setups
	opt    Options
	log    *slog.Logger

	seeding chan struct{} // holds one token: who has it may store the built-in protocols
	seeded  atomic.Bool   // they are stored

	callKey func() ([]byte, error) // makes idempotency keys

	claims  claims
	hourly  hourly
	answers answers
	ratings *rater

	missing chan struct{}          // wakes FillVectors
	model   atomic.Pointer[string] // that embedded last
}

// New returns an engine. It touches neither store nor setups until called.
func New(store Store, setups drivers.Setups, opt Options, log *slog.Logger) *Engine {
	opt.RunTTL = cmp.Or(opt.RunTTL, 7*24*time.Hour)
	opt.UntouchedTTL = cmp.Or(opt.UntouchedTTL, 24*time.Hour)
	opt.ApprovalTTL = cmp.Or(opt.ApprovalTTL, time.Hour)
	opt.ScoreThreshold = cmp.Or(opt.ScoreThreshold, 0.3)
	opt.SimilarThreshold = cmp.Or(opt.SimilarThreshold, 0.9)
	opt.EmbedBudget = cmp.Or(opt.EmbedBudget, 3*time.Second)
	if opt.Clock == nil {
		opt.Clock = clock.System()
	}
	if opt.Observer == nil {
		opt.Observer = silence{}
	}
	e := &Engine{
		seeding: make(chan struct{}, 1), callKey: sync.OnceValues(callKey(opt.Key)),
		store: store, setups: setups, opt: opt, log: log, ratings: newRater(store.Ratings, opt.Observer, log), missing: make(chan struct{}, 1),
	}
	e.seeding <- struct{}{}
	return e
}

// Close writes what is still to be written in the background and waits for it.
// The store must be open until then. Calls that come later are served, but
// write nothing in the background. It may be called twice.
func (e *Engine) Close() error {
	e.ratings.close()
	return nil
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

// findStep resolves a URI that must name a step the caller can read.
func (e *Engine) findStep(ctx context.Context, c access.Caller, uri string) (protocol.Chain, int, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return protocol.Chain{}, 0, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", searchFirst)
	}
	if err := e.ready(ctx); err != nil {
		return protocol.Chain{}, 0, err
	}
	chain, i, err := e.store.Protocols.StepChain(ctx, c.Spaces(), id)
	if fault.CodeOf(err) == fault.NotFound {
		former, err := e.former(ctx, c, uri)
		if err == nil {
			err = gone(uri, former)
		}
		return protocol.Chain{}, 0, err
	}
	if err != nil {
		return protocol.Chain{}, 0, fmt.Errorf("find %s: %w", uri, err)
	}
	return chain, i, nil
}

// former finds the protocol that a step once was of.
func (e *Engine) former(ctx context.Context, c access.Caller, uri string) (Former, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return Former{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", searchFirst)
	}
	f, err := e.store.Protocols.Former(ctx, c.Spaces(), id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return Former{}, fault.New(fault.NotFound, "no step or protocol %s in your spaces", uri).WithNext("%s", searchFirst)
	case err != nil:
		return Former{}, fmt.Errorf("find what %s was: %w", uri, err)
	}
	return f, nil
}

// gone says where to look instead of a step that a protocol has no more.
func gone(uri string, f Former) *fault.Error {
	if f.Deleted {
		return fault.New(fault.NotFound, "the protocol %q, which %s was a step of, is deleted", f.Chain.Title, uri).
			WithNext("%s; `kairos restore %s` brings the deleted protocol back", searchFirst, f.Chain.ID)
	}
	head := protocol.URI(f.Chain.Steps[0].UUID)
	return fault.New(fault.NotFound, "%s is not a step of the protocol %q any more: another version replaced the one that had it", uri, f.Chain.Title).
		With("uri", head).WithNext("call kairos_begin with %s to run the protocol as it is now, or kairos_dump with it to read it", head).
		WithCall(toolBegin, map[string]any{"uri": head})
}

// chainOf is the protocol that the URI names, for runs of it: they keep the
// steps as they were when they began, whatever became of the protocol.
func (e *Engine) chainOf(ctx context.Context, c access.Caller, uri string) (chain protocol.Chain, absent error, err error) {
	chain, _, err = e.findStep(ctx, c, uri)
	if fault.CodeOf(err) != fault.NotFound {
		return chain, nil, err
	}
	f, unknown := e.former(ctx, c, uri)
	if unknown != nil {
		return chain, nil, unknown
	}
	return f.Chain, err, nil
}

// typeOf is the challenge type under which a step is shown.
func (e held) typeOf(s protocol.Step) string {
	c, err := protocol.CommonOf(s.Challenge)
	if s.Challenge == nil || err != nil {
		return e.Tree.NoChallengeType()
	}
	return cmp.Or(c.Type, e.Tree.MissingType())
}

const searchFirst = "call kairos_search with what you want to do, and use a uri from its choices"

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
