package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Handover is told where runs stand, so that somebody else can go on with them.
type Handover interface {
	// Moved: a change of the run is stored. It is called for one change of a run
	// after the other, must return at once, and cannot fail.
	Moved(Standing)
}

// Standing is where a run stands, as far as it may be told outside the
// database: no nonces, no evidence, nothing that anybody answered.
type Standing struct {
	Run run.Summary
	URI string // of the protocol's first step
	// Step is the name of the open step; empty when all are solved.
	Step   string
	Solved []SolvedName
	Roots  []string // the folders that the run works in, if it said so
}

// SolvedName is a step that is solved, and who vouches for it.
type SolvedName struct {
	Name       string
	Provenance driver.Provenance
}

func standingOf(r run.Run, chain protocol.Chain) Standing {
	s := Standing{Run: r.Summary(), URI: protocol.URI(chain.Steps[0].UUID), Roots: r.Roots}
	for i, p := range r.Proofs {
		s.Solved = append(s.Solved, SolvedName{Name: chain.Steps[i].Name, Provenance: p.Provenance})
	}
	if i := r.Step.Index - 1; i < len(chain.Steps) {
		s.Step = chain.Steps[i].Name
	}
	return s
}

// moved tells that a change of the run is stored.
func (e *Engine) moved(r run.Run, chain protocol.Chain) {
	if e.opt.Handover != nil {
		e.opt.Handover.Moved(standingOf(r, chain))
	}
}

// Standing is where a run stands, whoever's it is: for the server itself. One
// whose time has passed counts as ended.
func (e *Engine) Standing(ctx context.Context, id run.ID) (Standing, error) {
	r, err := e.read(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	chain, err := e.store.Index.Pinned(ctx, r.Pin)
	if err != nil {
		return Standing{}, fmt.Errorf("load the protocol of run %s: %w", id, err)
	}
	s := standingOf(r, chain)
	s.Run = e.asOfNow(s.Run)
	return s, nil
}

// asOfNow is the run as its next caller will find it.
func (e *Engine) asOfNow(s run.Summary) run.Summary {
	if s.State.Live() && e.expired(s) {
		s.State = run.Ended
	}
	return s
}

// RunsInput says which runs to list.
type RunsInput struct {
	State  run.State // empty: any
	Cursor string    // the NextCursor of the reply before; empty: from the start
	Limit  int       // 0: 100; more than 1000 are never given
}

// RunsReply lists runs, the last begun one first.
type RunsReply struct {
	Runs       []run.Summary `json:"runs"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// AllRuns lists the caller's runs, also those that cannot go on. A run whose
// time has passed is listed as ended, though the store may still hold it open.
func (e *Engine) AllRuns(ctx context.Context, c access.Caller, in RunsInput) (RunsReply, error) {
	const usual, most = 100, 1000
	runs, next, err := e.store.Archive.AllRuns(ctx, RunQuery{
		Principal: c.Principal, State: in.State, Cursor: in.Cursor, Limit: min(max(cmp.Or(in.Limit, usual), 1), most),
	})
	if err != nil {
		return RunsReply{}, fmt.Errorf("list runs: %w", err)
	}
	reply := RunsReply{Runs: make([]run.Summary, 0, len(runs)), NextCursor: next}
	for _, s := range runs {
		if s = e.asOfNow(s); in.State == "" || s.State == in.State {
			reply.Runs = append(reply.Runs, s)
		}
	}
	return reply, nil
}

// Abandon ends one of the caller's runs for good, whatever it waits for. A
// question that is open about it can be answered no more.
func (e *Engine) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error) {
	h, release := e.hold()
	defer release()
	return again(func() (run.Summary, error) {
		t, err := h.resume(ctx, c, id)
		if err != nil {
			return run.Summary{}, err
		}
		if !t.run.State.Live() {
			return run.Summary{}, t.over(ctx)
		}
		if err := t.apply(run.Event{Kind: run.Abandoned, Reason: plain.Clip(cmp.Or(reason, "no reason was given"), 2000)}); err != nil {
			return run.Summary{}, err
		}
		return t.run.Summary(), t.save(ctx)
	})
}

// over says that the run cannot go on, and since when and why.
func (t *turn) over(ctx context.Context) *fault.Error {
	uri := protocol.URI(t.chain.Steps[0].UUID)
	return fault.New(fault.NoOpenRun, "run %s %s", t.run.ID, t.ending(ctx)).
		WithNext("call kairos_begin with %s to start over", uri).
		With("run_id", t.run.ID).WithCall(api.ToolBegin, map[string]any{"uri": uri})
}

// ending is how the run ended, for people. What cannot be read is left out.
func (t *turn) ending(ctx context.Context) string {
	events, err := t.e.store.History.Events(ctx, t.run.ID)
	events = slices.DeleteFunc(events, func(ev run.Event) bool { return ev.Kind == run.Redacted })
	if err != nil || len(events) == 0 {
		return "is " + string(t.run.State)
	}
	last := events[len(events)-1]
	at := last.At.UTC().Format(time.RFC3339)
	switch last.Kind {
	case run.Attested:
		return fmt.Sprintf("was attested at %s with outcome %s", at, last.Outcome)
	case run.Abandoned:
		return fmt.Sprintf("was abandoned at %s: %s", at, plain.Clip(last.Reason, 200))
	case run.Expired:
		return fmt.Sprintf("ended at %s: %s", at, last.Reason)
	}
	return "is " + string(t.run.State)
}

// Swept is what one Sweep did.
type Swept struct {
	Expired int // runs that were ended because their time had passed
	Removed int // ended runs that were removed
}

// sweepBatch is how many runs are taken up at a time, so that others get to
// write in between.
const sweepBatch = 100

// Sweep ends the runs whose time has passed and removes those that ended
// longer ago than Options.RunKeep, whoever's they are. Several servers of one
// database may sweep at the same time. It does what it can: the error says
// what it could not.
func (e *Engine) Sweep(ctx context.Context) (Swept, error) {
	var s Swept
	var errs error
	s.Expired, errs = e.expireOverdue(ctx)
	if e.opt.RunKeep <= 0 {
		return s, errs
	}
	for before := e.opt.Clock.Settled().Add(-e.opt.RunKeep); ; {
		n, err := e.store.Archive.RemoveEnded(ctx, before, sweepBatch)
		s.Removed += n
		if err != nil {
			return s, errors.Join(errs, fmt.Errorf("remove runs that ended long ago: %w", err))
		}
		if n < sweepBatch {
			return s, errs
		}
	}
}

func (e *Engine) expireOverdue(ctx context.Context) (expired int, errs error) {
	now := e.opt.Clock.Settled()
	for {
		ids, err := e.store.Archive.Overdue(ctx, now.Add(-e.opt.RunTTL), now.Add(-e.opt.UntouchedTTL), sweepBatch)
		if err != nil {
			return expired, errors.Join(errs, fmt.Errorf("find runs whose time has passed: %w", err))
		}
		before := expired
		for _, id := range ids {
			done, err := e.expireOne(ctx, id)
			if err != nil {
				errs = errors.Join(errs, err)
			}
			if done {
				expired++
			}
		}
		// Those that could not be ended come again, and are left for the next time.
		if len(ids) < sweepBatch || expired == before || ctx.Err() != nil {
			return expired, errs
		}
	}
}

// expireOne ends a run unless somebody changes it just now.
func (e *Engine) expireOne(ctx context.Context, id run.ID) (bool, error) {
	r, err := e.store.Runs.Run(ctx, id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("end run %s, whose time has passed: %w", id, err)
	case !r.State.Live() || !e.expired(r.Summary()):
		return false, nil
	}
	chain, err := e.store.Index.Pinned(ctx, r.Pin)
	if err != nil {
		return false, fmt.Errorf("load the protocol of run %s: %w", id, err)
	}
	_, err = e.expire(ctx, r, chain)
	if fault.CodeOf(err) == fault.Conflict {
		return false, nil
	}
	return err == nil, err
}
