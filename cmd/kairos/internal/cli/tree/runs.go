package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// history is what the tree decided in several runs.
type history struct {
	Decided []archive.Decided
	Runs    int // that were read
	// Unreadable runs are left out.
	Unreadable []unreadableRun
}

// unreadableRun is a run whose record cannot be read, and why.
type unreadableRun struct {
	Run     run.ID `json:"run"`
	Problem string `json:"problem"`
}

// decisionsOf reads what was decided in the runs with these ids, or in all runs.
// With all, a run that cannot be read does not hide the others.
func decisionsOf(ctx context.Context, stderr io.Writer, a *app.App, ids []string, all bool) (history, error) {
	if all == (len(ids) > 0) {
		return history{}, errors.New("of which runs? name them by id, or say --all")
	}
	if all {
		err := session.EachRuns(ctx, session.Local(a), operations.ListRunsRequest{All: true}, func(page []run.Summary) error {
			for _, r := range page {
				ids = append(ids, string(r.ID))
			}
			return nil
		})
		if err != nil {
			return history{}, err
		}
	}
	p := output.NewProgress(stderr, len(ids), "reading runs")
	defer p.End()
	var h history
	for _, arg := range ids {
		id, err := session.FindRun(ctx, session.Local(a), arg)
		if err != nil {
			return history{}, err
		}
		of, err := a.Engine.Decisions(ctx, a.RunCaller(), id)
		p.Add(1)
		switch {
		case err == nil:
			h.Decided = append(h.Decided, of...)
			h.Runs++
		case all && ctx.Err() == nil:
			h.Unreadable = append(h.Unreadable, unreadableRun{Run: id, Problem: err.Error()})
		default:
			return history{}, session.Missing(ctx, session.Local(a), id, fmt.Errorf("run %s: %w", id, err))
		}
	}
	return h, nil
}

// incomplete is the error of a command that left runs out, after it printed the rest.
func incomplete(left []unreadableRun) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("left out %s that cannot be read; `kairos doctor` says what to do", output.Count(len(left), "run"))
}

func printUnreadable(p *output.Printer, left []unreadableRun) {
	for _, r := range left {
		p.Printf("run %s cannot be read: %s\n", r.Run, r.Problem)
	}
}

// coverageReport is what `tree coverage` prints.
type coverageReport struct {
	Runs int `json:"runs"`
	decision.Coverage
	Never      []string        `json:"never"` // paths
	Unreadable []unreadableRun `json:"unreadable,omitempty"`
}

func treeCoverageCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var all bool
	var file string
	cmd := &cobra.Command{
		Use: "coverage [RUN...]", Short: "Count the rules and routes that runs have taken",
		Long: "Counts how many decisions of the runs tried each rule and route of the tree, chose it, and got an answer from it. Rules\n" +
			"and routes that were never chosen are listed at the end: either no run has needed them yet, or they are unreachable.\n" +
			"Decisions of another tree are repeated with the facts that the run has recorded.",
		Example: "  kairos tree coverage --all\n  kairos tree coverage --tree new.yaml 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2",
		RunE: func(cmd *cobra.Command, ids []string) error {
			tree, err := at.Tree(file)
			if err != nil {
				return err
			}
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				made, err := decisionsOf(ctx, cmd.ErrOrStderr(), a, ids, all)
				if err != nil {
					return err
				}
				past := make([]decision.Past, len(made.Decided))
				for i, d := range made.Decided {
					past[i] = d.Past
				}
				r := coverageReport{Runs: made.Runs, Coverage: tree.Coverage(past), Never: []string{}, Unreadable: made.Unreadable}
				for _, n := range r.Coverage.Never() {
					r.Never = append(r.Never, n.Path)
				}
				if err := out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { printCoverage(p, r) }); err != nil {
					return err
				}
				return incomplete(r.Unreadable)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all runs that the database has")
	cmd.Flags().StringVar(&file, "tree", "", "this tree; empty: the configured one")
	return cmd
}

func printCoverage(p *output.Printer, r coverageReport) {
	p.Printf("%s of %s", output.Count(r.Decisions, "decision"), output.Count(r.Runs, "run"))
	if r.Replayed > 0 {
		p.Printf("; %d of another tree, made again on this one", r.Replayed)
	}
	if r.Unknown > 0 {
		p.Printf("; %d not counted, because their facts were not kept", r.Unknown)
	}
	p.Printf("\n\n")
	rows := [][]string{{"RULE OR ROUTE", "LINE", "LOOKED AT", "CHOSEN", "", "ANSWERED"}}
	for _, n := range r.Nodes {
		answered := ""
		if n.Via != "" {
			answered = fmt.Sprint(n.Answered)
		}
		rows = append(rows, []string{nodeName(n), fmt.Sprint(n.Line), fmt.Sprint(n.Looked), fmt.Sprint(n.Chosen), share(n.Chosen, r.Decisions), answered})
	}
	p.Table(rows)
	if len(r.Never) > 0 {
		p.Printf("\nnever chosen:\n")
	}
	for _, n := range r.Nodes {
		if slices.Contains(r.Never, n.Path) {
			p.Printf("  %s, line %d\n", strings.TrimSpace(nodeName(n)), n.Line)
		}
	}
	printUnreadable(p, r.Unreadable)
}

func nodeName(n decision.Used) string {
	switch {
	case n.Via != "":
		return "  " + n.Path + " via " + n.Via
	case n.Name != "":
		return n.Path + " (" + n.Name + ")"
	}
	return n.Path
}

func share(part, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of))
}
