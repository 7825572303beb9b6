package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// Records is the use cases about runs as records. Implemented by *archive.Archive.
type Records interface {
	AllRuns(ctx context.Context, c access.Caller, in archive.RunsInput) (archive.RunsReply, error)
	Timeline(ctx context.Context, c access.Caller, id run.ID) (archive.Timeline, error)
	Account(ctx context.Context, c access.Caller, id run.ID) (archive.Account, error)
}

// Pages shows runs as web pages.
type Pages interface {
	// Page is the run as a web page, drawn on the tree in use.
	Page(ctx context.Context, c access.Caller, id run.ID) ([]byte, error)
}

// Runs is the use cases that change runs. Implemented by *director.Engine.
type Runs interface {
	Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error)
	Begin(ctx context.Context, c access.Caller, in api.BeginRequest) (director.Round, error)
	Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error)
	Decide(ctx context.Context, c access.Caller, in director.DecideInput) (director.DecideReply, error)
	Cancel(ctx context.Context, c access.Caller, in director.CancelInput) (director.CancelReply, error)
}

// ListRuns declares runs_list.
var ListRuns = api.Tool[ListRunsRequest, archive.RunsReply]{Declaration: api.Declaration{
	Name: "runs_list", Title: "List runs", ReadOnly: true, Idempotent: true,
	Description: "List your open runs, and to an operator those of everybody, last changed first, a page at a time. With all or state also those that have ended, last begun first.",
}}

// ListRunsRequest selects runs.
type ListRunsRequest struct {
	All    bool      `json:"all,omitempty" doc:"Also runs that have ended; default false"`
	State  run.State `json:"state,omitempty" doc:"Only runs in this state" enum:"open,asking,waiting,complete,closed,ended"`
	Limit  int       `json:"limit,omitempty" doc:"How many runs at most; default 100" min:"1" max:"1000"`
	Cursor string    `json:"cursor,omitempty" doc:"next_cursor of the reply before, for the next runs"`
	Worth  bool      `json:"worth,omitempty" doc:"Say who vouches for the steps of each; default false"`
}

// States are the states that runs can be listed by.
var States = []run.State{run.Open, run.Asking, run.Waiting, run.Complete, run.Closed, run.Ended}

func listRuns(ctx context.Context, e Engine, c access.Caller, in ListRunsRequest) (archive.RunsReply, error) {
	if in.State != "" && !slices.Contains(States, in.State) {
		return archive.RunsReply{}, fault.New(fault.InvalidArgument, "no run is in state %.80q; the states are %v", in.State, States)
	}
	return e.AllRuns(ctx, c, archive.RunsInput{Live: !in.All && in.State == "", State: in.State, Cursor: in.Cursor, Limit: in.Limit, Worth: in.Worth})
}

// RunRequest names a run.
type RunRequest struct {
	RunID run.ID `json:"run_id" doc:"Id of the run" min:"1"`
}

func (r RunRequest) id() run.ID { return r.RunID }

// ShowRun declares runs_show.
var ShowRun = api.Tool[RunRequest, archive.Timeline]{Declaration: api.Declaration{
	Name: "runs_show", Title: "Show what happened in a run", ReadOnly: true, Idempotent: true,
	Description: "Show what happened in one of your runs, step by step: questions, answers, evidence, decisions of the tree and proofs, except what was redacted.",
}}

func showRun(ctx context.Context, e Engine, c access.Caller, in RunRequest) (archive.Timeline, error) {
	return e.Timeline(ctx, c, in.RunID)
}

// ShowRunPage declares runs_page.
var ShowRunPage = api.Tool[RunRequest, RunPageReply]{Declaration: api.Declaration{
	Name: "runs_page", Title: "Show a run as a web page", ReadOnly: true, Idempotent: true,
	Description: "Show what happened in one of your runs as a self-contained web page, with the decision paths drawn on the tree in use.",
}}

// RunPageReply is a run as a web page.
type RunPageReply struct {
	Page string `json:"page" doc:"An HTML document without scripts"`
}

func showRunPage(ctx context.Context, e Engine, c access.Caller, in RunRequest) (RunPageReply, error) {
	page, err := e.Page(ctx, c, in.RunID)
	return RunPageReply{string(page)}, err
}

// ResumeRun declares runs_resume.
var ResumeRun = api.Tool[RunRequest, api.StepReply]{Declaration: api.Declaration{
	Name: "runs_resume", Title: "Resume a run",
	Description: "Show the open step of one of your runs with a fresh nonce, and the call that continues it. A client that had the run before must resume it as well.",
}}

func resumeRun(ctx context.Context, e Engine, c access.Caller, in RunRequest) (api.StepReply, error) {
	account, err := e.Account(ctx, c, in.RunID)
	if err != nil {
		return api.StepReply{}, err
	}
	begin := api.BeginRequest{URI: protocol.URI(account.Chain.Steps[0].UUID), SessionID: string(in.RunID)}
	reply, err := toolset.Unasked(ctx, e, c, func() (director.Round, error) { return e.Begin(ctx, c, begin) })
	if err != nil {
		return api.StepReply{}, err
	}
	return *reply, nil
}

// AbandonRun declares runs_abandon.
var AbandonRun = api.Tool[AbandonRunRequest, run.Summary]{Declaration: api.Declaration{
	Name: "runs_abandon", Title: "Abandon a run", Destructive: true,
	Description: "End one of your runs, whatever it waits for. Its record stays, but nothing can be added to it.",
}}

// AbandonRunRequest ends a run.
type AbandonRunRequest struct {
	RunRequest

	Reason string `json:"reason,omitempty" doc:"Why, for whoever looks at the run later"`
}

func abandonRun(ctx context.Context, e Engine, c access.Caller, in AbandonRunRequest) (run.Summary, error) {
	return e.Abandon(ctx, c, in.RunID, in.Reason)
}

// DecideRun declares runs_decide.
var DecideRun = api.Tool[DecideRunRequest, director.DecideReply]{Declaration: api.Declaration{
	Name: "runs_decide", Title: "Decide a call whose outcome is unknown",
	Description: "Record what came of a call of a driver whose outcome is unknown, so that the run can continue. Find out first what happened.",
}}

// DecideRunRequest is what a person found out about a call of a driver.
type DecideRunRequest struct {
	RunRequest

	Happened bool            `json:"happened" doc:"true: the driver did act, and is not called again. false: the next kairos_next makes another attempt"`
	Result   json.RawMessage `json:"result,omitempty" doc:"What came of it, if it happened: the answer that the driver obtains, or the output of the step"`
	Reason   string          `json:"reason" doc:"How you know, for whoever looks at the run later" min:"1"`
	By       string          `json:"by,omitempty" doc:"Who says so. The run records it as a claim, beside the principal of the call"`
}

func decideRun(ctx context.Context, e Engine, c access.Caller, in DecideRunRequest) (director.DecideReply, error) {
	return e.Decide(ctx, c, director.DecideInput{Run: in.RunID, Happened: in.Happened, Result: in.Result, By: decidedBy(c, in.By), Reason: in.Reason})
}

// CancelRun declares runs_cancel.
var CancelRun = api.Tool[CancelRunRequest, director.CancelReply]{Declaration: api.Declaration{
	Name: "runs_cancel", Title: "Cancel what a driver does",
	Description: "End what a driver does for the open step of one of your runs, such as a command that it runs. The run stays open.",
}}

// CancelRunRequest names what is to end.
type CancelRunRequest struct {
	RunRequest

	By string `json:"by,omitempty" doc:"Who cancels it. The run records it as a claim, beside the principal of the call"`
}

func cancelRun(ctx context.Context, e Engine, c access.Caller, in CancelRunRequest) (director.CancelReply, error) {
	// The drivers of a command are not those of the server that waits.
	c.Detached = c.Client.Transport != "rest"
	return e.Cancel(ctx, c, director.CancelInput{Run: in.RunID, By: decidedBy(c, in.By)})
}

// decidedBy is who decides, for the record. A server does not know the account of
// the person, which is only claimed, but it knows the principal.
func decidedBy(c access.Caller, claimed string) string {
	if c.Client.Transport != "rest" {
		return claimed
	}
	return fmt.Sprintf("%s, as principal %s over REST", cmp.Or(claimed, "somebody"), c.Principal)
}
