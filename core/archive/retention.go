package archive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
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

// Sweep ends expired runs of all principals, removes those that ended longer ago
// than Options.RunKeep, and returns the space to the disk. Several servers of one
// database may sweep concurrently. It continues after failures; the error says
// what failed.
func (a *Archive) Sweep(ctx context.Context) (Swept, error) {
	var s Swept
	var errs error
	s.Expired, errs = a.expireOverdue(ctx)
	if a.opt.RunKeep > 0 {
		var err error
		s.Removed, err = a.removeKept(ctx)
		errs = errors.Join(errs, err)
	}
	return s, errors.Join(errs, a.reclaim(ctx))
}

// removeKept removes runs that ended longer ago than Options.RunKeep, if there are any.
func (a *Archive) removeKept(ctx context.Context) (removed int, err error) {
	before := a.opt.Clock.Settled().Add(-a.opt.RunKeep)
	n, err := a.store.Archive.CountEnded(ctx, before)
	if err != nil || n == 0 {
		return 0, err
	}
	act := audit.Act{Action: audit.RunPrune, Details: map[string]string{"older_than": a.opt.RunKeep.String()}}
	return a.pruned(ctx, access.Caller{}, act, before)
}

// pruned has audited that runs are removed.
func (a *Archive) pruned(ctx context.Context, c access.Caller, act audit.Act, before time.Time) (removed int, err error) {
	err = a.opt.Audit.Do(ctx, c, act, func(doing *audit.Doing) (err error) {
		removed, err = a.removeEnded(ctx, before)
		doing.Note("runs", strconv.Itoa(removed))
		return err
	})
	return removed, err
}

// PruneInput selects ended runs to remove.
type PruneInput struct {
	OlderThan time.Duration // since they ended
	DryRun    bool          // remove nothing
}

// PruneReply says what was removed, or what would be.
type PruneReply struct {
	Runs   int       `json:"runs"`
	Before time.Time `json:"before"` // the runs ended before that
	DryRun bool      `json:"dry_run"`
	// Size is that of the database in bytes, Free the part of it that is free, both
	// as they are now. Freed is how much smaller the database became.
	Size  int64 `json:"size"`
	Free  int64 `json:"free"`
	Freed int64 `json:"freed"`
}

// Prune removes runs of all principals that ended longer ago than the input says,
// and returns the space to the disk.
func (a *Archive) Prune(ctx context.Context, c access.Caller, in PruneInput) (PruneReply, error) {
	reply := PruneReply{Before: a.opt.Clock.Now().Add(-in.OlderThan), DryRun: in.DryRun}
	before, err := a.Space(ctx)
	if err != nil {
		return reply, err
	}
	if in.DryRun {
		reply.Size, reply.Free = before.Size, before.Free
		if reply.Runs, err = a.store.Archive.CountEnded(ctx, reply.Before); err != nil {
			return reply, fmt.Errorf("count the runs that ended before %s: %w", reply.Before, err)
		}
		return reply, nil
	}
	act := audit.Act{Action: audit.RunPrune, Details: map[string]string{"older_than": in.OlderThan.String()}}
	if reply.Runs, err = a.pruned(ctx, c, act, reply.Before); err != nil {
		return reply, err
	}
	if err := a.reclaim(ctx); err != nil {
		return reply, err
	}
	after, err := a.Space(ctx)
	reply.Size, reply.Free, reply.Freed = after.Size, after.Free, before.Size-after.Size
	return reply, err
}

// removeEnded removes a batch of runs after the other.
func (a *Archive) removeEnded(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n, err := a.store.Archive.RemoveEnded(ctx, before, sweepBatch)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("remove runs that ended long ago: %w", err)
		}
		if n < sweepBatch {
			return removed, nil
		}
	}
}

// reclaim returns the free space of the files to the disk, a part after the other.
func (a *Archive) reclaim(ctx context.Context) error {
	for more := a.store.Files != nil; more; {
		var err error
		if more, err = a.store.Files.Reclaim(ctx); err != nil {
			return fmt.Errorf("return free space of the database to the disk: %w", err)
		}
	}
	return nil
}

// Space is the size of the database; zero where it has no files of its own.
func (a *Archive) Space(ctx context.Context) (Space, error) {
	if a.store.Files == nil {
		return Space{}, nil
	}
	s, err := a.store.Files.Space(ctx)
	if err != nil {
		return s, fmt.Errorf("find the size of the database: %w", err)
	}
	return s, nil
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
