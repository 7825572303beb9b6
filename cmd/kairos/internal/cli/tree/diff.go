package tree

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
)

// treeDiffReport is what `tree diff` prints.
type treeDiffReport struct {
	Old       string `json:"old"` // digests
	New       string `json:"new"`
	Runs      int    `json:"runs"`
	Decisions int    `json:"decisions"` // that were made again
	// Unknown: their facts were not kept.
	Unknown int `json:"unknown,omitempty"`
	// Elsewhere: neither of the two trees made them.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Following: decisions that come after one that differs, on the same input,
	// so that they would perhaps not be made at all.
	Following   int              `json:"following,omitempty"`
	Differences []treeDifference `json:"differences"`
	Doubtful    []treeDifference `json:"doubtful,omitempty"` // no difference, if what was not kept makes none
	Unreadable  []unreadableRun  `json:"unreadable,omitempty"`
}

// treeDifference is a decision of a run that the trees make in different ways.
type treeDifference struct {
	Run   run.ID `json:"run"`
	Step  int    `json:"step"`
	Label string `json:"label"`
	Input string `json:"input"`
	decision.Difference
}

func treeDiffCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var all, exitCode bool
	var ids []string
	cmd := &cobra.Command{
		Use: "diff [OLD] NEW", Short: "Compare the routes of past runs with another tree",
		Long: "Repeats the decisions of runs on two trees, with the facts that the runs have recorded, and lists those that lead to\n" +
			"another driver or another approval, and why. Without OLD the configured tree is compared.",
		Example: "  kairos tree diff new.yaml --all\n  kairos tree diff old.yaml new.yaml --runs 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --exit-code",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := at.Tree(strings.Join(args[:len(args)-1], ""))
			if err != nil {
				return err
			}
			after, err := at.Tree(args[len(args)-1])
			if err != nil {
				return err
			}
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				made, err := decisionsOf(ctx, cmd.ErrOrStderr(), a, ids, all)
				if err != nil {
					return err
				}
				r := compareTrees(before, after, made.Decided)
				r.Runs, r.Unreadable = made.Runs, made.Unreadable
				if err := out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { printDiff(p, r) }); err != nil {
					return err
				}
				if n := len(r.Differences); exitCode && n > 0 {
					return fmt.Errorf("%s would take a different route", output.Count(n, "decision"))
				}
				return incomplete(r.Unreadable)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all runs that the database has")
	cmd.Flags().StringSliceVar(&ids, "runs", nil, "ids of the runs")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if anything would take a different route")
	return cmd
}

func compareTrees(before, after *decision.Tree, made []archive.Decided) treeDiffReport {
	r := treeDiffReport{Old: before.Digest(), New: after.Digest(), Differences: []treeDifference{}}
	var last archive.Decided
	var off bool // the last decision differed, and its input is still sought
	for _, d := range made {
		follows := off && d.Run == last.Run && d.Step == last.Step && d.Input == last.Input && !last.Ended()
		last = d
		switch {
		case d.Record == nil:
			r.Unknown++
			off = false
			continue
		case follows:
			r.Following++
			continue
		case d.Record.Tree != before.Digest() && d.Record.Tree != after.Digest():
			r.Elsewhere++
		}
		r.Decisions++
		var differs decision.Difference
		differs, off = decision.Compare(before, after, *d.Record)
		at := treeDifference{Run: d.Run, Step: d.Step, Label: d.Label, Input: d.Input, Difference: differs}
		switch {
		case off:
			r.Differences = append(r.Differences, at)
		case len(differs.Doubts) > 0:
			r.Doubtful = append(r.Doubtful, at)
		}
	}
	return r
}

func printDiff(p *output.Printer, r treeDiffReport) {
	for _, d := range r.Differences {
		p.Printf("run %s, step %d %q, %s\n", d.Run, d.Step, d.Label, d.Input)
		p.Field("old", way(d.Old))
		p.Field("new", way(d.New))
		for _, why := range d.Why {
			p.Field("why", why)
		}
		printDoubts(p, d)
		p.Printf("\n")
	}
	for _, d := range r.Doubtful {
		p.Printf("run %s, step %d %q, %s: perhaps\n", d.Run, d.Step, d.Label, d.Input)
		printDoubts(p, d)
		p.Printf("\n")
	}
	p.Printf("%d of %s of %s would take a different route\n", len(r.Differences), output.Count(r.Decisions, "decision"), output.Count(r.Runs, "run"))
	if r.Following > 0 {
		p.Printf("%s left out, because they follow from one above\n", output.Count(r.Following, "decision"))
	}
	if r.Elsewhere > 0 {
		p.Printf("%s made by neither of the two trees\n", output.Count(r.Elsewhere, "decision"))
	}
	if r.Unknown > 0 {
		p.Printf("%s left out, because their facts were not kept\n", output.Count(r.Unknown, "decision"))
	}
	printUnreadable(p, r.Unreadable)
}

func printDoubts(p *output.Printer, d treeDifference) {
	for _, fact := range d.Doubts {
		p.Field("unknown", "the new tree looks at "+fact+", which the run has not kept")
	}
}

func way(w decision.Way) string {
	via := "no route"
	if w.Via != "" {
		via = "via " + w.Via
	}
	if w.Use != "" {
		via += ", judged by " + w.Use
	}
	if w.Approval != "" {
		via += ", approval " + string(w.Approval)
	}
	return fmt.Sprintf("%s  (%s, line %d)", via, w.Rule, w.Line)
}
