package archive

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// RunsInput selects runs to list.
type RunsInput struct {
	Live   bool      // only those that can continue, last changed first
	State  run.State // empty: any
	Cursor string    // NextCursor of the previous reply; empty: from the start
	Limit  int       // 0: 100; at most 1000
	Worth  bool      // say what each is worth; each is read for that
}

// RunsReply is a page of runs.
type RunsReply struct {
	Runs       []run.Summary `json:"runs"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// AllRuns lists the runs that the caller oversees, the most recently begun first, unless in
// says otherwise. An expired run counts as ended even if the store has not ended it yet.
// A live run that changes while pages are read moves to the first page.
func (a *Archive) AllRuns(ctx context.Context, c access.Caller, in RunsInput) (RunsReply, error) {
	const usual, most = 100, 1000
	q := overseen(c)
	q.Live, q.State, q.Cursor, q.Limit = in.Live, in.State, in.Cursor, min(max(cmp.Or(in.Limit, usual), 1), most)
	runs, next, err := a.store.Archive.AllRuns(ctx, q)
	if err != nil {
		return RunsReply{}, fmt.Errorf("list runs: %w", err)
	}
	reply := RunsReply{Runs: make([]run.Summary, 0, len(runs)), NextCursor: next}
	for _, s := range runs {
		s = a.runs.AsOfNow(s)
		if (in.State == "" || s.State == in.State) && (!in.Live || s.State.Live()) {
			if in.Worth {
				if s.Worth, err = a.worth(ctx, s.ID); err != nil {
					return RunsReply{}, err
				}
			}
			reply.Runs = append(reply.Runs, s)
		}
	}
	return reply, nil
}

// overseen selects the runs that the caller oversees, as access.Caller.Oversees says of one.
func overseen(c access.Caller) Query {
	if c.May(access.Operate, "") {
		return Query{Everybody: true}
	}
	return Query{Principal: c.Principal, Spaces: c.Spaces()}
}

// worth says what the steps of the run are worth. A run that cannot be read does not hide
// the others.
func (a *Archive) worth(ctx context.Context, id run.ID) (string, error) {
	r, err := a.runs.Read(ctx, id)
	switch {
	case err == nil:
		return r.Worth(), nil
	case ctx.Err() != nil || fault.CodeOf(err) == fault.StoreUnavailable:
		return "", fmt.Errorf("say what run %s is worth: %w", id, err)
	}
	return "cannot be read", nil
}

// eachLive calls do for each run that the caller oversees and that can continue, last
// changed first, and holds a page of them at a time.
func (a *Archive) eachLive(ctx context.Context, c access.Caller, do func(run.Summary) error) error {
	q := overseen(c)
	q.Live, q.Limit = true, 1000
	for {
		live, next, err := a.store.Archive.AllRuns(ctx, q)
		if err != nil {
			return fmt.Errorf("list open runs: %w", err)
		}
		for _, s := range live {
			if a.runs.Expired(s) {
				continue
			}
			if err := do(s); err != nil {
				return err
			}
		}
		if q.Cursor = next; next == "" {
			return nil
		}
	}
}

// Abandon ends a run that the caller oversees for good, whatever it waits for. Its open
// question can no longer be answered.
func (a *Archive) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (_ run.Summary, err error) {
	doing, err := a.opt.Audit.Begin(ctx, c, audit.Act{Action: audit.RunAbandon, Object: objectOf(id), Anyway: true})
	if err != nil {
		return run.Summary{}, err
	}
	defer doing.End(&err)
	claim := a.runs.Claim()
	defer claim.Release()
	return runs.Again(func() (run.Summary, error) {
		if err := claim.Take(ctx, id); err != nil {
			return run.Summary{}, err
		}
		t, err := a.runs.Oversee(ctx, c, id)
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
