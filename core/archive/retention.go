package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

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
