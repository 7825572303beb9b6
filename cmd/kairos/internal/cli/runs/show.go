package runs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/timeline"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

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
					line, err := operations.ShowRun.Call(ctx, t, operations.RunRequest{RunID: id})
					if err != nil {
						return err
					}
					return out.Print(cmd.OutOrStdout(), line, func(p *output.Printer) { timeline.Timeline(p, line) })
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
	if to == "-" {
		p := &output.Printer{W: cmd.OutOrStdout()}
		p.Verbatim(string(page))
		return p.Err
	}
	if err := os.WriteFile(to, page, 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	output.Tell(cmd.ErrOrStderr(), "wrote %s\n", to)
	return nil
}
