package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Store is what a database offers those who change runs.
type Store struct {
	Runs    Runs
	Index   Index
	History History
}

// Options tune a keeper. The zero value is the documented default.
type Options struct {
	// RunTTL is how long a run may stay unattested. The default is 7 days.
	RunTTL time.Duration
	// UntouchedTTL ends runs that never advanced and wait for nobody. The default is 1 day.
	UntouchedTTL time.Duration
	// Handover is notified of where runs stand; may be nil.
	Handover Handover
	// Clock is the time by which runs are recorded and end. The default is this machine's.
	Clock *clock.Clock
}

// Keeper loads runs for those whose they are, and ends them when their time has
// passed. It is safe for concurrent use.
type Keeper struct {
	store  Store
	opt    Options
	claims claims
	live   *liveRuns
	pinned *cache.Cache[string, protocol.Chain] // by digest; they never change
}

// New returns a keeper. It does not touch the store until called.
func New(store Store, opt Options) *Keeper {
	opt.RunTTL = cmp.Or(opt.RunTTL, 7*24*time.Hour)
	opt.UntouchedTTL = cmp.Or(opt.UntouchedTTL, 24*time.Hour)
	if opt.Clock == nil {
		opt.Clock = clock.System()
	}
	return &Keeper{store: store, opt: opt, live: newLiveRuns(), pinned: cache.New[string, protocol.Chain](maxPinned)}
}

// maxPinned is how many bytes of pinned protocols are kept.
const maxPinned = 8 << 20

// Pinned is the protocol as it was when the run began. The caller must not modify it:
// other calls have the same.
func (k *Keeper) Pinned(ctx context.Context, r run.Run) (protocol.Chain, error) {
	if chain, ok := k.pinned.Get(r.Pin); ok {
		return chain, nil
	}
	chain, err := k.store.Index.Pinned(ctx, r.Pin)
	if err != nil {
		return protocol.Chain{}, fmt.Errorf("load the protocol of run %s: %w", r.ID, err)
	}
	k.pinned.Put(r.Pin, chain, chain.Size())
	return chain, nil
}

// Read loads a run for a caller, with its past.
func (k *Keeper) Read(ctx context.Context, id run.ID) (run.Run, error) {
	r, _, err := k.readWithAbsent(ctx, id)
	return r, err
}

// readWithAbsent is Read, with what the store holds nothing of.
func (k *Keeper) readWithAbsent(ctx context.Context, id run.ID) (run.Run, Absent, error) {
	known, asked := k.live.get(id), run.Run{ID: id}
	if known.Revision > 0 {
		asked = known
	}
	look, err := k.store.Runs.RunUnless(ctx, asked)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		k.live.drop(id)
		return run.Run{}, Absent{}, noRun(id)
	case err != nil:
		return run.Run{}, Absent{}, err
	case !look.Changed:
		return known, look.Absent, nil
	}
	r, err := k.recall(ctx, look.Run, known)
	if err != nil {
		return run.Run{}, Absent{}, err
	}
	k.live.put(r)
	return r, Absent{}, nil
}

// recall adds to a run its past, of which an earlier revision may be known.
func (k *Keeper) recall(ctx context.Context, r, known run.Run) (run.Run, error) {
	events, err := k.store.History.EventsBetween(ctx, r.ID, known.Revision, r.Revision)
	if err != nil {
		return run.Run{}, fmt.Errorf("read what happened in run %s: %w", r.ID, err)
	}
	if known.Revision > 0 && slices.ContainsFunc(events, func(e run.Event) bool { return e.Kind == run.Redacted }) {
		return k.recall(ctx, r, run.Run{})
	}
	return r.Recall(known, events), nil
}

// overseen checks that the caller oversees a run, ends it if its time has passed, and returns
// it with the chain it is pinned to. The run of another principal, or of a group that the
// caller has left meanwhile, is not told apart from one that does not exist.
func (k *Keeper) overseen(ctx context.Context, c access.Caller, r run.Run) (run.Run, protocol.Chain, error) {
	if r.Principal != c.Principal && !c.May(access.Operate, "") {
		return run.Run{}, protocol.Chain{}, noRun(r.ID) // before its protocol is read
	}
	chain, err := k.Pinned(ctx, r)
	if err != nil {
		return run.Run{}, protocol.Chain{}, err
	}
	if !c.Oversees(r.Principal, chain.Space) {
		return run.Run{}, protocol.Chain{}, noRun(r.ID)
	}
	if r.State.Live() && k.Expired(r.Summary()) {
		if r, err = k.Expire(ctx, r, chain); err != nil {
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
func (k *Keeper) setBack(before time.Time) bool {
	return k.opt.Clock.Now().Add(clock.Tolerance).Before(before)
}

// whyExpired is which time of a run has passed, for people.
func whyExpired(opt Options, r run.Run) string {
	if opt.Clock.Settled().Sub(r.CreatedAt) > opt.RunTTL {
		return fmt.Sprintf("it was not attested within %s", hours(opt.RunTTL))
	}
	return fmt.Sprintf("it never advanced beyond its first step, and nobody continued it for %s", hours(opt.UntouchedTTL))
}

func hours(d time.Duration) string {
	if d < time.Hour {
		return d.String()
	}
	return fmt.Sprintf("%g hours", d.Hours())
}

// Deadlines are the times before which runs whose time has passed began, or were
// last touched at their first step.
func (k *Keeper) Deadlines() (began, untouched time.Time) {
	now := k.opt.Clock.Settled()
	return now.Add(-k.opt.RunTTL), now.Add(-k.opt.UntouchedTTL)
}

// Expired reports whether the time of a run has passed.
func (k *Keeper) Expired(s run.Summary) bool {
	now := k.opt.Clock.Settled()
	if now.Sub(s.CreatedAt) > k.opt.RunTTL {
		return true
	}
	return s.State == run.Open && s.StepIndex == 1 && now.Sub(s.UpdatedAt) > k.opt.UntouchedTTL
}

// Expire ends a run whose time has passed. fault.Conflict: somebody changed it
// just now.
func (k *Keeper) Expire(ctx context.Context, r run.Run, chain protocol.Chain) (run.Run, error) {
	ev := run.Event{Kind: run.Expired, Run: r.ID, Step: r.Step.Index, Reason: whyExpired(k.opt, r)}
	ev.At, ev.Clock = r.Stamp(k.opt.Clock.Now())
	next, err := run.Apply(r, ev)
	if err != nil {
		return r, err
	}
	if err := k.store.Runs.SaveRun(ctx, Save{Run: next, Events: []run.Event{ev}}); err != nil {
		return r, fmt.Errorf("end run %s: %w", r.ID, err)
	}
	next.Revision++
	k.live.put(next)
	k.moved(next, chain)
	return next, nil
}

// reach is how many open runs of a protocol a call looks at that names none.
const reach = 16

// listed are runs of a protocol that can continue.
type listed struct {
	Runs []run.Summary
	More bool // there may be others, which come later in the order
}

// openRuns are the caller's open runs of a protocol, last changed first.
func (k *Keeper) openRuns(ctx context.Context, c access.Caller, chain string) (listed, error) {
	found, err := k.store.Index.OpenRuns(ctx, openQuery(c, chain))
	if err != nil {
		return listed{}, fmt.Errorf("list open runs: %w", err)
	}
	return stillOpen(found, k.Expired), nil
}

// openOnConnection are those of them that were begun or resumed last on the caller's
// connection, last begun first.
func (k *Keeper) openOnConnection(ctx context.Context, c access.Caller, chain string) (listed, error) {
	if c.Connection == "" {
		return listed{}, nil
	}
	found, err := k.store.Index.OpenOnConnection(ctx, openQuery(c, chain), c.Connection)
	if err != nil {
		return listed{}, fmt.Errorf("list the open runs of a connection: %w", err)
	}
	return stillOpen(found, k.Expired), nil
}

func stillOpen(found []run.Summary, expired func(run.Summary) bool) listed {
	more := len(found) == reach
	return listed{slices.DeleteFunc(found, expired), more}
}

func openQuery(c access.Caller, chain string) OpenQuery {
	return OpenQuery{Principal: c.Principal, Spaces: c.Spaces(), Chain: chain, Limit: reach}
}
