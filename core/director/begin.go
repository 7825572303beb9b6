package director

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Begin opens a run of the protocol that the URI names, or with a session id
// shows the open step of a run that is under way. It never touches another run.
func (e *Engine) Begin(ctx context.Context, c access.Caller, in api.BeginRequest) (_ Round, err error) {
	defer e.parts.Library.Retrieved(c.Space, time.Now(), &err)
	u, release := e.hold()
	defer release()
	return u.begin(ctx, c, in)
}

func (u useCase) begin(ctx context.Context, c access.Caller, in api.BeginRequest) (Round, error) {
	if in.SessionID != "" {
		return runs.Again(func() (Round, error) { return u.reopen(ctx, c, in) })
	}
	chain, i, err := u.e.parts.Library.FindStep(ctx, c, in.URI)
	if err != nil {
		return Round{}, err
	}
	if err := c.Check(api.ToolBegin, chain.Space); err != nil {
		return Round{}, u.e.opt.Audit.Refused(ctx, c, audit.Act{Action: audit.RunBegin, Space: chain.Space, Object: in.URI}, err)
	}
	if err := input.InputsFault(chain); err != nil {
		return Round{}, err
	}
	given, err := inputOf(chain, in.Input)
	if err != nil {
		return Round{}, err
	}
	roots, err := rootsOf(in.Roots)
	if err != nil {
		return Round{}, err
	}
	t, err := u.start(c, chain, given)
	if err != nil {
		return Round{}, err
	}
	t.Run.Roots = roots
	t.Tried = api.ToolBegin + " with " + in.URI
	if i > 0 {
		t.Note = fmt.Sprintf("Redirected to the first step of %q.", chain.Title)
	}
	return t.drive(ctx, nil)
}

func inputOf(chain protocol.Chain, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if decision.Object(raw) == nil {
		return nil, fault.New(fault.InvalidArgument, "input must be a JSON object")
	}
	raw = run.WellFormed(raw)
	return raw, input.CheckOfRun(chain, raw)
}

func rootsOf(texts []string) ([]string, error) {
	roots, err := filecheck.Roots(texts)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidArgument, "roots: %v", err)
	}
	return roots, nil
}

// start makes a new run; it is stored with the first save.
func (u useCase) start(c access.Caller, chain protocol.Chain, given json.RawMessage) (*turn, error) {
	pin, err := library.Digest(chain)
	if err != nil {
		return nil, fmt.Errorf("pin protocol %q: %w", chain.Title, err)
	}
	now, id := u.e.opt.Clock.Now(), run.ID(u.e.opt.Clock.NewID())
	nonce := newNonce(id)
	change := u.e.parts.Runs.Create(run.Run{
		ID: id, FirstNonce: nonce, Principal: c.Principal, Space: c.Space, Connection: c.Connection, ChainID: chain.ID,
		Title: chain.Title, Pin: pin, StepCount: len(chain.Steps), Input: given, State: run.Open,
		Step: run.Step{Index: 1, Nonce: nonce}, CreatedAt: now, UpdatedAt: now,
	}, chain)
	t := newTurn(change, u, c)
	t.Started = now
	return t, nil
}

// reopen shows the open step of a run with a fresh nonce. The session id is a
// pointer, not a credential: the run must be the caller's own.
func (u useCase) reopen(ctx context.Context, c access.Caller, in api.BeginRequest) (Round, error) {
	t, err := u.resume(ctx, c, run.ID(in.SessionID))
	if fault.CodeOf(err) == fault.NotFound {
		return Round{}, fault.New(fault.NotFound, "no open run %q of yours", plain.Clip(in.SessionID, 80)).
			WithNext("call kairos_begin without session_id to start over").
			WithCall(api.ToolBegin, map[string]any{"uri": in.URI})
	}
	if err != nil {
		return Round{}, err
	}
	if !t.Run.State.Live() {
		return Round{}, t.change.Over(ctx)
	}
	if err := checkResumed(ctx, t, in.URI); err != nil {
		return Round{}, err
	}
	if err := sameRoots(t, in.Roots); err != nil {
		return Round{}, err
	}
	t.resumed = true
	t.Note = plain.Sentences(t.Note, fmt.Sprintf("Resumed run %s.", t.Run.ID))
	t.Tried = fmt.Sprintf("%s with %s and session_id %s", api.ToolBegin, in.URI, t.Run.ID)
	if !plan.Complete(t.State) {
		if err := t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID), Connection: c.Connection}); err != nil {
			return Round{}, err
		}
	}
	return t.drive(ctx, nil)
}
