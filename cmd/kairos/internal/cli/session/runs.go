package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// AllRuns are the runs in the state, or with an empty one all, page after page.
func AllRuns(ctx context.Context, a *app.App, state run.State) ([]run.Summary, error) {
	all := []run.Summary{}
	for in := (archive.RunsInput{State: state, Limit: 1000}); ; {
		page, err := a.Engine.AllRuns(ctx, a.Caller(), in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Runs...)
		if page.NextCursor == "" {
			return all, nil
		}
		in.Cursor = page.NextCursor
	}
}

// WithRun runs do on one run of the local database.
func (s Session) WithRun(ctx context.Context, id string, do func(context.Context, *app.App, run.ID) error) error {
	return s.With(ctx, func(ctx context.Context, a *app.App) error {
		return Missing(ctx, a, run.ID(id), do(ctx, a, run.ID(id)))
	})
}

// Missing is the error of a command about a run, for operators where there is
// no such run: an agent would be told to begin one.
func Missing(ctx context.Context, a *app.App, id run.ID, err error) error {
	if fault.CodeOf(err) != fault.NotFound {
		return err
	}
	s, lookErr := a.Engine.Standing(ctx, id)
	switch {
	case lookErr == nil && s.Run.Principal != app.LocalPrincipal:
		return fault.New(fault.NotFound, "run %s is of principal %q; commands on this machine see the runs of %q alone", id, s.Run.Principal, app.LocalPrincipal)
	case lookErr == nil:
		return err // the run is there, something else is not
	}
	return NoSuchRun(string(id), a.Config.Database)
}

// NoSuchRun is the error for a run that the database does not have.
func NoSuchRun(id, database string) error {
	what := fmt.Sprintf("no run %.80q", id)
	if strings.HasPrefix(id, "kairos://") {
		what = fmt.Sprintf("%.80q is a protocol or a step, not a run; no such run", id)
	}
	return fault.New(fault.NotFound, "%s is in the database %s", what, database).
		WithHint("`kairos runs list --all` lists its runs; --db names another database")
}
