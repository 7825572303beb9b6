package operations

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// Runs is the use cases about runs.
type Runs interface {
	Runs(ctx context.Context, c access.Caller) ([]run.Summary, error)
	AllRuns(ctx context.Context, c access.Caller, in archive.RunsInput) (archive.RunsReply, error)
	Timeline(ctx context.Context, c access.Caller, id run.ID) (archive.Timeline, error)
}

// ListRuns declares runs_list.
var ListRuns = api.Tool[ListRunsRequest, archive.RunsReply]{Declaration: api.Declaration{
	Name: "runs_list", Title: "List runs", ReadOnly: true, Idempotent: true,
	Description: "List your open runs, last changed first. With all or state also those that have ended, last begun first and a page at a time.",
}}

// ListRunsRequest selects runs.
type ListRunsRequest struct {
	All    bool      `json:"all,omitempty" jsonschema:"Also runs that have ended; default false"`
	State  run.State `json:"state,omitempty" jsonschema:"Only runs in this state" schema:"enum=open|asking|waiting|complete|closed|ended"`
	Limit  int       `json:"limit,omitempty" jsonschema:"How many runs at most; default 100" schema:"minimum=1 maximum=1000"`
	Cursor string    `json:"cursor,omitempty" jsonschema:"next_cursor of the reply before, for the next runs"`
}

// States are the states that runs can be listed by.
var States = []run.State{run.Open, run.Asking, run.Waiting, run.Complete, run.Closed, run.Ended}

func listRuns(ctx context.Context, e Engine, c access.Caller, in ListRunsRequest) (archive.RunsReply, error) {
	switch {
	case in.State != "" && !slices.Contains(States, in.State):
		return archive.RunsReply{}, fault.New(fault.InvalidArgument, "no run is in state %.80q; the states are %v", in.State, States)
	case in.All || in.State != "":
		return e.AllRuns(ctx, c, archive.RunsInput{State: in.State, Cursor: in.Cursor, Limit: in.Limit})
	}
	live, err := e.Runs(ctx, c)
	if live == nil {
		live = []run.Summary{}
	}
	return archive.RunsReply{Runs: live}, err
}

// RunRequest names a run.
type RunRequest struct {
	RunID run.ID `json:"run_id" jsonschema:"Id of the run" schema:"minLength=1"`
}

// ShowRun declares runs_show.
var ShowRun = api.Tool[RunRequest, archive.Timeline]{Declaration: api.Declaration{
	Name: "runs_show", Title: "Show what happened in a run", ReadOnly: true, Idempotent: true,
	Description: "Show what happened in one of your runs, step by step: questions, answers, evidence, decisions of the tree and proofs, except what was redacted.",
}}

func showRun(ctx context.Context, e Engine, c access.Caller, in RunRequest) (archive.Timeline, error) {
	if err := needed("run_id", string(in.RunID)); err != nil {
		return archive.Timeline{}, err
	}
	return e.Timeline(ctx, c, in.RunID)
}
