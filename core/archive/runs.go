package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

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
func (a *Archive) AllRuns(ctx context.Context, c access.Caller, in RunsInput) (RunsReply, error) {
	const usual, most = 100, 1000
	runs, next, err := a.store.Archive.AllRuns(ctx, Query{
		Principal: c.Principal, State: in.State, Cursor: in.Cursor, Limit: min(max(cmp.Or(in.Limit, usual), 1), most),
	})
	if err != nil {
		return RunsReply{}, fmt.Errorf("list runs: %w", err)
	}
	reply := RunsReply{Runs: make([]run.Summary, 0, len(runs)), NextCursor: next}
	for _, s := range runs {
		if s = a.runs.AsOfNow(s); in.State == "" || s.State == in.State {
			reply.Runs = append(reply.Runs, s)
		}
	}
	return reply, nil
}

// Abandon ends one of the caller's runs for good, whatever it waits for. A
// question that is open about it can be answered no more.
func (a *Archive) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error) {
	claim := a.runs.Claim()
	defer claim.Release()
	return runs.Again(func() (run.Summary, error) {
		if err := claim.Take(ctx, id); err != nil {
			return run.Summary{}, err
		}
		t, err := a.runs.Open(ctx, c, id)
		if err != nil {
			return run.Summary{}, err
		}
		if !t.Run.State.Live() {
			return run.Summary{}, t.Over(ctx)
		}
		if err := t.Append(run.Event{Kind: run.Abandoned, Reason: plain.Clip(cmp.Or(reason, "no reason was given"), 2000)}); err != nil {
			return run.Summary{}, err
		}
		_, err = t.Save(ctx)
		return t.Run.Summary(), err
	})
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
func (a *Archive) Sweep(ctx context.Context) (Swept, error) {
	var s Swept
	var errs error
	s.Expired, errs = a.expireOverdue(ctx)
	if a.opt.RunKeep <= 0 {
		return s, errs
	}
	for before := a.opt.Clock.Settled().Add(-a.opt.RunKeep); ; {
		n, err := a.store.Archive.RemoveEnded(ctx, before, sweepBatch)
		s.Removed += n
		if err != nil {
			return s, errors.Join(errs, fmt.Errorf("remove runs that ended long ago: %w", err))
		}
		if n < sweepBatch {
			return s, errs
		}
	}
}

func (a *Archive) expireOverdue(ctx context.Context) (expired int, errs error) {
	began, untouched := a.runs.Deadlines()
	for {
		ids, err := a.store.Archive.Overdue(ctx, began, untouched, sweepBatch)
		if err != nil {
			return expired, errors.Join(errs, fmt.Errorf("find runs whose time has passed: %w", err))
		}
		before := expired
		for _, id := range ids {
			done, err := a.expireOne(ctx, id)
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
func (a *Archive) expireOne(ctx context.Context, id run.ID) (bool, error) {
	r, err := a.store.Runs.Run(ctx, id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("end run %s, whose time has passed: %w", id, err)
	case !r.State.Live() || !a.runs.Expired(r.Summary()):
		return false, nil
	}
	chain, err := a.runs.Pinned(ctx, r)
	if err != nil {
		return false, err
	}
	_, err = a.runs.Expire(ctx, r, chain)
	if fault.CodeOf(err) == fault.Conflict {
		return false, nil
	}
	return err == nil, err
}
