package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/solution"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Next submits a solution for the open step of a run, or without one lets the
// server obtain the proof. Wrong solutions are replies, not errors.
func (e *Engine) Next(ctx context.Context, c access.Caller, in api.NextRequest) (Round, error) {
	return use(e, func(u useCase) (Round, error) { return u.next(ctx, c, in) })
}

func (u useCase) next(ctx context.Context, c access.Caller, in api.NextRequest) (Round, error) {
	s, err := solution.Parse(in.Solution)
	if err != nil {
		return Round{}, err
	}
	stepUUID, err := protocol.ParseURI(in.URI)
	if err != nil {
		return Round{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", library.SearchFirst)
	}
	t, err := u.runFor(ctx, c, in, s, stepUUID)
	if err != nil && s == nil && in.RunID == "" && !in.Cancel {
		return Round{}, nothingSent(err)
	}
	if err != nil {
		return Round{}, cmp.Or(checkType(u, s, ""), err)
	}
	t.Tried = tried(in.URI, s)
	if in.Cancel && t.Run.State.Live() {
		return cancelNow(ctx, t)
	}
	if f := *u.refused; f.Code != "" && t.Run.State.Live() {
		return t.drive(ctx, plan.Show{Failure: &f})
	}
	if round, done, err := repeated(ctx, t, s); done || err != nil {
		return t.orDrive(ctx, round, err)
	}
	if plan.Complete(t.State) {
		return t.reply(ctx, plan.CompletedReply(t.State))
	}
	if err := checkType(u, s, u.setup.TypeOf(plan.OpenStep(t.State))); err != nil {
		return Round{}, err
	}
	t.Target, t.Solution = t.Run.Step.Index, s
	t.Run.MovedAt = t.Started
	if round, done, err := envelope(ctx, t, s); done || err != nil {
		return t.orDrive(ctx, round, err)
	}
	if s.Supplied() {
		t.submitted = &runs.Recorded{Key: nonceKey(t.Run.Step.Nonce), Payload: s.Payload}
		keepEarlier(t)
	}
	return t.drive(ctx, nil)
}

// nothingSent is the error of a call with neither a solution nor a step that there is.
// Clients of the earlier server expect this code, and not NOT_FOUND.
func nothingSent(err error) error {
	var absent *fault.Error
	if fault.CodeOf(err) != fault.NotFound || !errors.As(err, &absent) {
		return err
	}
	both := absent.With("retry_count", 0)
	both.Code, both.Message = fault.MissingField, "Solution is missing, and "+absent.Message
	return both
}

// checkType refuses a solution of an unknown type, except the type of
// the open challenge, whose driver may have been removed.
func checkType(u useCase, s *solution.Solution, open string) error {
	if types := u.setup.Tree.Types(); s != nil && s.Type != "" && s.Type != open && !slices.Contains(types, s.Type) {
		return fault.New(fault.InvalidArgument, "Input validation error: solution.type: value must be one of '%s'", strings.Join(types, "', '"))
	}
	return nil
}

// tried is what a call of kairos_next tried.
func tried(uri string, s *solution.Solution) string {
	what := api.ToolNext + " with " + uri
	switch {
	case s == nil:
		return what + " and no solution"
	case s.Type == "":
		return what + " and a solution without a type"
	case !s.Supplied():
		return fmt.Sprintf("%s and a solution of type %s that leaves the proof to the server", what, plain.Clip(s.Type, 80))
	}
	return fmt.Sprintf("%s and a solution of type %s", what, plain.Clip(s.Type, 80))
}

func nonceKey(nonce string) string { return "nonce:" + nonce }

// runFor finds the run a submission is for: by its nonce, else by run_id, else
// the connection's newest run of that protocol, else the caller's only one.
func (u useCase) runFor(ctx context.Context, c access.Caller, in api.NextRequest, s *solution.Solution, stepUUID string) (*turn, error) {
	if s != nil && s.Nonce != "" {
		if id, ok := run.OfNonce(s.Nonce); ok {
			t, err := u.resume(ctx, c, id)
			if err == nil {
				err = checkRunID(t, in.RunID)
				if err == nil {
					err = checkURI(t, stepUUID, in.URI)
				}
				return t, err
			}
			if fault.CodeOf(err) != fault.NotFound {
				return nil, err
			}
		}
	}
	if in.RunID != "" {
		t, err := u.resume(ctx, c, run.ID(in.RunID))
		if err != nil {
			return nil, err
		}
		return t, checkURI(t, stepUUID, in.URI)
	}
	chain, absent, err := u.e.parts.Library.ChainOf(ctx, c, in.URI)
	if err != nil {
		return nil, err
	}
	id, err := u.e.parts.Runs.ToContinue(ctx, c, chain)
	if fault.CodeOf(err) == fault.NoOpenRun && absent != nil {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	return u.resume(ctx, c, id)
}
