package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

func runsCommand(at *session) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "Look at runs, go on with them, or end them"}
	out := new(format)
	out.addTo(cmd)
	cmd.PersistentFlags().BoolFunc("json", "the same as --output json", func(string) error { *out = formatJSON; return nil })
	cmd.AddCommand(runsList(at, out), runsShow(at, out), runsResume(at, out), runsAbandon(at, out), runsExport(at), runsVerify(out), runsKey(at, out), runsRedact(at, out), runsDecide(at, out))
	return cmd
}

// runStates are the states that --state takes.
var runStates = []run.State{run.Open, run.Asking, run.Waiting, run.Complete, run.Closed, run.Ended}

// runsList is `kairos runs list`.
func runsList(at *session, out *format) *cobra.Command {
	var all bool
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List the runs that can go on, last changed first",
		Long: "Lists the runs that can go on, last changed first; with --all or --state also those that cannot, last begun\n" +
			"first. A run is open, asking (somebody was asked and has not answered), waiting (for a driver), complete (to be attested), closed\n" +
			"(attested) or ended (abandoned, or its time has passed).",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" && !slices.Contains(runStates, run.State(state)) {
				return fmt.Errorf("no run is in state %q; the states are %s", state, list(runStates))
			}
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				runs, err := a.runs(ctx, all, run.State(state))
				if err != nil {
					return err
				}
				return out.print(cmd.OutOrStdout(), runs, func(p *printer) { p.runs(runs) })
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list those that cannot go on, too")
	cmd.Flags().StringVar(&state, "state", "", "list those in this state only")
	return cmd
}

// runs are those that can go on, or with all or a state any.
func (a *app) runs(ctx context.Context, all bool, state run.State) ([]run.Summary, error) {
	if all || state != "" {
		return a.allRuns(ctx, state)
	}
	runs, err := a.engine.Runs(ctx, a.caller())
	if runs == nil {
		runs = []run.Summary{}
	}
	return runs, err
}

// allRuns are the runs in the state, or with an empty one all, page after page.
func (a *app) allRuns(ctx context.Context, state run.State) ([]run.Summary, error) {
	all := []run.Summary{}
	for in := (engine.RunsInput{State: state, Limit: 1000}); ; {
		page, err := a.engine.AllRuns(ctx, a.caller(), in)
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

// withRun runs do on one run of the local database.
func (s session) withRun(ctx context.Context, id string, do func(context.Context, *app, run.ID) error) error {
	return s.with(ctx, func(ctx context.Context, a *app) error {
		return a.missing(ctx, run.ID(id), do(ctx, a, run.ID(id)))
	})
}

// missing is the error of a command about a run, for operators where there is
// no such run: an agent would be told to begin one.
func (a *app) missing(ctx context.Context, id run.ID, err error) error {
	if fault.CodeOf(err) != fault.NotFound {
		return err
	}
	s, lookErr := a.engine.Standing(ctx, id)
	switch {
	case lookErr == nil && s.Run.Principal != localPrincipal:
		return fault.New(fault.NotFound, "run %s is of principal %q; commands on this machine see the runs of %q alone", id, s.Run.Principal, localPrincipal)
	case lookErr == nil:
		return err // the run is there, something else is not
	}
	return noSuchRun(string(id), a.config.Database)
}

func noSuchRun(id, database string) error {
	what := fmt.Sprintf("no run %.80q", id)
	if strings.HasPrefix(id, "kairos://") {
		what = fmt.Sprintf("%.80q is a protocol or a step, not a run; no such run", id)
	}
	return fault.New(fault.NotFound, "%s is in the database %s", what, database).
		WithNext("`kairos runs list --all` lists its runs; --db names another database")
}

// runsAbandon is `kairos runs abandon`.
func runsAbandon(at *session, out *format) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "abandon RUN", Short: "End a run for good",
		Long: "Ends a run whatever it waits for. What was recorded of it stays, but nothing can be added: a question that is\n" +
			"open about it can be answered no more.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.withRun(cmd.Context(), args[0], func(ctx context.Context, a *app, id run.ID) error {
				s, err := a.engine.Abandon(ctx, a.caller(), id, reason)
				if err != nil {
					return err
				}
				return out.print(cmd.OutOrStdout(), s, func(p *printer) {
					p.printf("run %s of %q is abandoned, at step %s\n", s.ID, s.Title, stepOf(s))
				})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at the run later")
	return cmd
}

func (p *printer) runs(runs []run.Summary) {
	rows := [][]string{{"RUN", "PROTOCOL", "STATE", "STEP", "CHANGED"}}
	for _, r := range runs {
		rows = append(rows, []string{string(r.ID), r.Title, string(r.State), stepOf(r), moment(r.UpdatedAt)})
	}
	p.table(rows)
}

// stepOf is how far a run came.
func stepOf(r run.Summary) string {
	return fmt.Sprintf("%d/%d", min(r.StepIndex, r.StepCount), r.StepCount)
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

// printf prints texts of files, statements and the database so that they stay
// within their line and steer no terminal; only lines may have several.
func (p *printer) printf(format string, args ...any) {
	if p.err != nil {
		return
	}
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = harmless(a)
	}
	_, p.err = fmt.Fprintf(p.w, format, shown...)
}

// tell prints a note beside a command's result, such as a warning. What cannot
// be written there is lost.
func tell(w io.Writer, format string, args ...any) { (&printer{w: w}).printf(format, args...) }

// lines is a text that may have several lines.
type lines string

// quotation is a text of somebody else, set off from the program's own lines as
// kairos run sets it off.
type quotation string

// harmless is the argument without what could steer a terminal.
func harmless(a any) any {
	switch a := a.(type) {
	case lines:
		return plain.Text(string(a))
	case quotation:
		return "  | " + strings.ReplaceAll(plain.Text(strings.TrimSpace(string(a))), "\n", "\n  | ")
	case error:
		return plain.Line(a.Error())
	case fmt.Stringer:
		return plain.Line(a.String())
	}
	switch v := reflect.ValueOf(a); {
	case v.Kind() == reflect.String:
		return plain.Line(v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8: // JSON
		return plain.Line(string(v.Bytes()))
	}
	return a
}

// verbatim prints a text as it is where it goes to a file or a pipe, and at a
// terminal without what would steer that.
func (p *printer) verbatim(text string) {
	if isTerminal(p.w) {
		text = plain.Text(text)
	}
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

func (p *printer) field(name, value string) {
	if value != "" {
		p.printf("       %-10s %s\n", name, value)
	}
}

// short is the text on one line of a terminal.
func short(s string) string {
	const limit = 160
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
