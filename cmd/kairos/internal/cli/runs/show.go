package runs

import (
	"bytes"
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
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
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
			if html == "" {
				return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
					line, err := operations.ShowRun.Call(ctx, t, operations.RunRequest{RunID: id})
					if err != nil {
						return err
					}
					return out.Print(cmd.OutOrStdout(), line, func(p *output.Printer) { timeline.Timeline(p, line) })
				})
			}
			if at.Server() != "" {
				return errors.New("--html draws the decision tree that is configured where the run is: write the page there, without --url and " + session.ServerEnv)
			}
			return at.WithLocalRun(cmd.Context(), args[0], func(ctx context.Context, a *app.App, id run.ID) error {
				line, err := a.Engine.Timeline(ctx, a.RunCaller(), id)
				if err != nil {
					return err
				}
				drawn, err := at.Tree(tree)
				if err != nil {
					return err
				}
				made, err := a.Engine.Decisions(ctx, a.RunCaller(), line.Run.ID)
				if err != nil {
					return err
				}
				return writePage(cmd, html, runpage.Run{Timeline: line, Decisions: made, Tree: drawn.Outline()})
			})
		},
	}
	cmd.Flags().StringVar(&html, "html", "", "write a web page to this file; - for standard output")
	cmd.Flags().StringVar(&tree, "tree", "", "draw this tree on the page; empty: the configured one")
	return cmd
}

// writePage writes the page of a run to a file that only its owner can read, or
// for "-" to standard output.
func writePage(cmd *cobra.Command, to string, r runpage.Run) error {
	if to == "-" {
		return r.Page(cmd.OutOrStdout())
	}
	var b bytes.Buffer
	if err := r.Page(&b); err != nil {
		return err
	}
	if err := os.WriteFile(to, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	output.Tell(cmd.ErrOrStderr(), "wrote %s\n", to)
	return nil
}
