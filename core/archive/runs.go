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

// RunsInput selects runs to list.
type RunsInput struct {
	State  run.State // empty: any
	Cursor string    // NextCursor of the previous reply; empty: from the start
	Limit  int       // 0: 100; at most 1000
}

// RunsReply lists runs, the most recently begun first.
type RunsReply struct {
	Runs       []run.Summary `json:"runs"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// AllRuns lists the caller's runs, also those that have ended. An expired run is
// listed as ended even if the store has not ended it yet.
func (a *Archive) AllRuns(ctx context.Context, c access.Caller, in RunsInput) (RunsReply, error) {
	const usual, most = 100, 1000
	runs, next, err := a.store.Archive.AllRuns(ctx, Query{
		Principal: c.Principal, Spaces: c.Spaces(), State: in.State, Cursor: in.Cursor, Limit: min(max(cmp.Or(in.Limit, usual), 1), most),
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

// Abandon ends one of the caller's runs for good, whatever it waits for. Its open
// question can no longer be answered.
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

// Swept is the result of one Sweep.
type Swept struct {
	Expired int // runs that were ended because they had expired
	Removed int // ended runs that were removed
}

// sweepBatch is how many runs are handled at a time, so that other writers get a
// turn in between.
const sweepBatch = 100

// Sweep ends expired runs of all principals and removes those that ended longer
// ago than Options.RunKeep. Several servers of one database may sweep
// concurrently. It continues after failures; the error says what failed.
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
			return expired, errors.Join(errs, fmt.Errorf("find expired runs: %w", err))
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
		// Runs that could not be ended are listed again; they wait for the next sweep.
		if len(ids) < sweepBatch || expired == before || ctx.Err() != nil {
			return expired, errs
		}
	}
}

// expireOne ends a run unless another call changes it at the same time.
func (a *Archive) expireOne(ctx context.Context, id run.ID) (bool, error) {
	r, err := a.store.Runs.Run(ctx, id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("end expired run %s: %w", id, err)
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
