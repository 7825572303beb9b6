// Package runs has the commands that look at runs, resume and end them.
package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/timeline"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// Command is `kairos runs`, with the commands that advance a run.
func Command(at *session.Session, steps ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "Inspect, advance, resume and end runs",
		Long: "Inspects, advances, resumes and ends runs. A RUN is named by its id, by the end of its id as `kairos runs list` shows it, or by\n" +
			"the title of its protocol where only one run of it is open.",
		Example: "  kairos runs list\n  kairos runs show 'Release a version'"}
	out := new(output.Format)
	out.AddTo(cmd)
	cmd.AddCommand(runsList(at, out), runsShow(at, out), runsResume(at, out), runsEnd(at, out), runsExport(at, out), runsVerify(out), runsKey(at, out), runsRedact(at, out), runsDecide(at, out), runsCancel(at, out), runsUndecline(at, out), runsPrune(at, out))
	cmd.AddCommand(steps...)
	return cmd
}

// runsList is `kairos runs list`.
func runsList(at *session.Session, out *output.Format) *cobra.Command {
	var all bool
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List runs",
		Long: "Lists the open runs and what each is worth so far, last changed first; with --all or --state also those that have\n" +
			"ended, last begun first. Where people and agents have tokens or log in, the operator sees the runs of everybody, with\n" +
			"whose each is, and anybody else their own.\n" +
			"A run is open, asking (a question is not answered yet), waiting (for a driver), complete (to be attested), closed\n" +
			"(attested) or ended (abandoned or expired).",
		Example: "  kairos runs list\n  kairos runs list --state waiting -o json",
		Args:    cobra.NoArgs, Annotations: session.AsksServers,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" && !slices.Contains(operations.States, run.State(state)) {
				return fmt.Errorf("no run is in state %q; the states are %s", state, output.List(operations.States))
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				n, err := listRuns(ctx, t, out, cmd.OutOrStdout(), operations.ListRunsRequest{All: all, State: run.State(state), Worth: true})
				if err != nil || n > 0 || all || state != "" || !out.ForPeople() {
					return err
				}
				ended, err := operations.ListRuns.Call(ctx, t, operations.ListRunsRequest{All: true, Limit: 1})
				if err == nil && len(ended.Runs) > 0 {
					output.Tell(cmd.ErrOrStderr(), "no run is open; `kairos runs list --all` lists those that have ended\n")
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list those that cannot continue")
	cmd.Flags().StringVar(&state, "state", "", "list those in this state only")
	completeStates(cmd)
	return cmd
}

// completeStates lets a shell complete --state.
func completeStates(cmd *cobra.Command) {
	states := make([]cobra.Completion, len(operations.States))
	for i, s := range operations.States {
		states[i] = string(s)
	}
	if err := cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
}

// listRuns prints the runs that the request selects, and returns how many.
func listRuns(ctx context.Context, t api.Transport, out *output.Format, w io.Writer, in operations.ListRunsRequest) (n int, err error) {
	all := []run.Summary{}
	if err := session.EachRuns(ctx, t, in, func(page []run.Summary) error { all = append(all, page...); return nil }); err != nil {
		return 0, err
	}
	return len(all), out.Print(w, all, func(p *output.Printer) {
		rows := [][]string{{"RUN", "PROTOCOL", "WORTH", "STATE", "STEP", "CHANGED"}}
		owned := slices.ContainsFunc(all, func(r run.Summary) bool { return r.Principal != app.LocalPrincipal })
		if owned {
			rows[0] = append(rows[0], "OWNER")
		}
		for _, r := range all {
			row := []string{p.ID(string(r.ID)), r.Title, cmp.Or(r.Worth, "-"), stateOf(r), stepOf(r), output.Moment(r.UpdatedAt)}
			if owned {
				row = append(row, r.Principal)
			}
			rows = append(rows, row)
		}
		p.Table(rows)
	})
}

// runsEnd is `kairos runs end`.
func runsEnd(at *session.Session, out *output.Format) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "end RUN", Short: "End a run that nobody will complete",
		Long: "Ends a run, whatever it waits for. Its record stays, but nothing can be added: an open question can no longer be\n" +
			"answered.",
		Example: "  kairos runs end 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --reason 'begun by mistake'",
		Args:    cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
				return output.Reply(cmd, out, func(p *output.Printer, s run.Summary) {
					p.Printf("run %s of %q is abandoned, at step %s\n", s.ID, s.Title, stepOf(s))
				})(operations.AbandonRun.Call(ctx, t, operations.AbandonRunRequest{RunRequest: operations.RunRequest{RunID: id}, Reason: reason}))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at the run later")
	return cmd
}

// stateOf is where a run stands, and why it has ended.
func stateOf(r run.Summary) string {
	switch {
	case r.EndedBy == run.Expired && r.StepIndex <= 1:
		return "ended (expired, never advanced)"
	case r.EndedBy != "":
		return fmt.Sprintf("%s (%s)", r.State, r.EndedBy)
	}
	return string(r.State)
}

// stepOf is how far a run came.
func stepOf(r run.Summary) string {
	return fmt.Sprintf("%d/%d", min(r.StepIndex, r.StepCount), r.StepCount)
}

// runsShow is `kairos runs show`: what happened in one run.
func runsShow(at *session.Session, out *output.Format) *cobra.Command {
	var html, tree string
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show what happened in a run", Args: cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteRuns,
		Long: "Shows what happened in a run, step by step. With --html it writes a self-contained web page: the steps, the decision\n" +
			"path of each, the questions and the answers. The page holds the evidence, so share it only with people who may see\n" +
			"the evidence.",
		Example: "  kairos runs show 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2\n  kairos runs show 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --html run.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case html == "":
				return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
					return output.Reply(cmd, out, timeline.Timeline)(operations.ShowRun.Call(ctx, t, operations.RunRequest{RunID: id}))
				})
			case tree == "":
				return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
					reply, err := operations.ShowRunPage.Call(ctx, t, operations.RunRequest{RunID: id})
					if err != nil {
						return err
					}
					return writePage(cmd, html, []byte(reply.Page))
				})
			case at.Server() != "":
				return errors.New("--tree names a file of this machine, and a server draws its own tree: leave --tree out")
			}
			return at.WithLocalRun(cmd.Context(), args[0], func(ctx context.Context, a *app.App, id run.ID) error {
				drawn, err := at.Tree(tree)
				if err != nil {
					return err
				}
				page, err := a.Page(ctx, a.RunCaller(), id, drawn.Outline())
				if err != nil {
					return err
				}
				return writePage(cmd, html, page)
			})
		},
	}
	cmd.Flags().StringVar(&html, "html", "", "write a web page to this file; - for standard output")
	cmd.Flags().StringVar(&tree, "tree", "", "draw this tree on the page; empty: the configured one")
	return cmd
}

// writePage writes the page of a run to a file that only its owner can read, or
// for "-" to standard output.
func writePage(cmd *cobra.Command, to string, page []byte) error {
	err := output.WriteFile(cmd.OutOrStdout(), to, "page", page)
	if err == nil && to != "-" {
		output.Tell(cmd.ErrOrStderr(), "wrote %s\n", to)
	}
	return err
}
