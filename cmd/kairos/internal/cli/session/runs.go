package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// EachRuns calls do with each page of the runs that the request selects.
func EachRuns(ctx context.Context, t api.Transport, in operations.ListRunsRequest, do func([]run.Summary) error) error {
	for in.Limit = 1000; ; {
		page, err := operations.ListRuns.Call(ctx, t, in)
		if err != nil {
			return err
		}
		if err := do(page.Runs); err != nil {
			return err
		}
		switch page.NextCursor {
		case "":
			return nil
		case in.Cursor:
			return fault.New(fault.UnexpectedReply, "the server sends the same page of runs again and again")
		}
		in.Cursor = page.NextCursor
	}
}

// LiveSince lists the live runs that commands of this machine began at that time or later.
func LiveSince(ctx context.Context, t api.Transport, since time.Time) (begun []run.ID, err error) {
	err = EachRuns(ctx, t, operations.ListRunsRequest{}, func(page []run.Summary) error {
		for _, r := range page {
			if r.Principal == app.LocalPrincipal && !r.CreatedAt.Before(since) && r.State.Live() {
				begun = append(begun, r.ID)
			}
		}
		return nil
	})
	return begun, err
}

// WithRun runs do on the run that an argument names, with what replies to calls
// about it: the server, else the local database.
func (s Session) WithRun(ctx context.Context, arg string, do func(context.Context, api.Transport, run.ID) error) error {
	return s.WithTools(ctx, func(ctx context.Context, t api.Transport) error {
		id, err := FindRun(ctx, t, arg)
		if err != nil {
			return err
		}
		return Missing(ctx, t, id, do(ctx, t, id))
	})
}

// WithLocalRun runs do on the run of the local database that an argument names.
func (s Session) WithLocalRun(ctx context.Context, arg string, do func(context.Context, *app.App, run.ID) error) error {
	return s.With(ctx, func(ctx context.Context, a *app.App) error {
		id, err := FindRun(ctx, Local(a), arg)
		if err != nil {
			return err
		}
		return Missing(ctx, Local(a), id, do(ctx, a, id))
	})
}

// FindRun is the run that an argument names: by its id, by the end of its id, or
// by the title of its protocol, where an open run comes before those that have
// ended. An argument that names no run comes back as it is, and the command
// refuses it.
func FindRun(ctx context.Context, t api.Transport, arg string) (run.ID, error) {
	const whole = len("01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2")
	if len(arg) == whole && strings.Trim(arg, "0123456789abcdef-") == "" || strings.Contains(arg, "://") {
		return run.ID(arg), nil
	}
	var byID, titled, open []run.Summary
	err := EachRuns(ctx, t, operations.ListRunsRequest{All: true}, func(page []run.Summary) error {
		for _, r := range page {
			switch live := r.State != run.Closed && r.State != run.Ended; {
			case output.EndsID(string(r.ID), arg):
				byID = append(byID, r)
			case strings.EqualFold(r.Title, arg) && live:
				open = append(open, r)
			case strings.EqualFold(r.Title, arg):
				titled = append(titled, r)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	named := byID
	for _, next := range [][]run.Summary{open, titled} {
		if len(named) == 0 {
			named = next
		}
	}
	switch len(named) {
	case 0:
		return run.ID(arg), nil
	case 1:
		return named[0].ID, nil
	}
	return "", ambiguous(arg, named)
}

// ambiguous is the error for an argument that names several runs.
func ambiguous(arg string, named []run.Summary) error {
	const most = 10
	var candidates strings.Builder
	for _, r := range named[:min(len(named), most)] {
		fmt.Fprintf(&candidates, "\n  %s  %s, %s, changed %s%s", r.ID, r.Title, r.State, output.Moment(r.UpdatedAt), app.Of(r.Principal))
	}
	if more := len(named) - most; more > 0 {
		fmt.Fprintf(&candidates, "\n  and %d more: `kairos runs list --all` lists them", more)
	}
	return fmt.Errorf("%.80q names %d runs; name one by its id:%s", arg, len(named), candidates.String())
}

// CompleteRuns completes the first argument with the ids of runs, each with its
// title. It reports no errors: a person is typing.
func (s *Session) CompleteRuns(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	whileTyping(cmd.Context(), s, func(ctx context.Context, t api.Transport) error {
		page, err := operations.ListRuns.Call(ctx, t, operations.ListRunsRequest{All: true, Limit: completionItems})
		for _, r := range page.Runs {
			// Runs begun in one minute begin with the same digits, so the end of an id is offered.
			id := output.ShortID(string(r.ID))
			if typed != "" && strings.HasPrefix(string(r.ID), typed) {
				id = string(r.ID)
			}
			if strings.HasPrefix(id, typed) {
				found = append(found, cobra.CompletionWithDesc(id, fmt.Sprintf("%s, %s", r.Title, r.State)))
			}
		}
		return err
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// Missing is the error of a command about a run, for operators where there is
// no such run: an agent would be told to begin one.
func Missing(ctx context.Context, t api.Transport, id run.ID, err error) error {
	if fault.CodeOf(err) != fault.NotFound {
		return err
	}
	switch t := t.(type) {
	case local:
		return missingHere(ctx, t.app, id, err)
	case server:
		return fault.New(fault.NotFound, "%s is on the server %s, or it is not yours", noRun(string(id)), t.address).
			WithHint("`kairos runs list --all --url %s` lists your runs there", t.address)
	}
	return err
}

func missingHere(ctx context.Context, a *app.App, id run.ID, err error) error {
	s, lookErr := a.Engine.Archive.Standing(ctx, id)
	switch {
	case lookErr == nil && s.Run.Principal != app.LocalPrincipal:
		return fault.New(fault.NotFound, "run %s is of principal %q; commands on this machine see the runs of %q alone", id, s.Run.Principal, app.LocalPrincipal)
	case lookErr == nil:
		return err // the run is there, something else is not
	}
	return NoSuchRun(string(id), a.Config.Database.String())
}

// NoSuchRun is the error for a run that the database does not have.
func NoSuchRun(id, database string) error {
	return fault.New(fault.NotFound, "%s is in the database %s", noRun(id), database).
		WithHint("`kairos runs list --all` lists its runs; --db names another database")
}

func noRun(id string) string {
	if strings.HasPrefix(id, "kairos://") {
		return fmt.Sprintf("%.80q is a protocol or a step, not a run; no such run", id)
	}
	return fmt.Sprintf("no run %.80q", id)
}

// How much a shell waits for, and reads.
const (
	completionWait  = 3 * time.Second
	completionItems = 200
)

// CompleteURI completes the first argument with the protocols' URIs, each with
// its title.
func (s *Session) CompleteURI(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return First(s.CompleteURIs)(cmd, args, typed)
}

// First completes the first argument alone.
func First(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// CompleteURIs completes every argument with URIs that are not arguments yet. It
// reports no errors: a person is typing.
func (s *Session) CompleteURIs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	whileTyping(cmd.Context(), s, func(ctx context.Context, t api.Transport) error {
		reply, err := api.Spaces.Call(ctx, t, api.SpacesRequest{Titles: true, Limit: completionItems})
		if err != nil {
			return err
		}
		there := strings.Join(args, " ")
		for _, space := range reply.Spaces {
			for _, c := range space.Chains {
				if c.URI != "" && strings.HasPrefix(c.URI, typed) && !strings.Contains(there, c.URI) {
					found = append(found, cobra.CompletionWithDesc(c.URI, c.Title))
				}
			}
		}
		return nil
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// whileTyping runs do like WithTools, but for a bounded time, without a word and
// without making a database.
func whileTyping(ctx context.Context, s *Session, do func(context.Context, api.Transport) error) {
	if s.Server() == "" {
		if c, err := s.Load(); err != nil || !app.DatabaseExists(c.Database) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	defer cancel()
	quiet := *s
	quiet.LogLevel = "error"
	if err := quiet.WithTools(ctx, do); err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
}
