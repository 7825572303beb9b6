package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
)

// history is what the tree decided in several runs.
type history struct {
	Decided []engine.Decided
	Runs    int // that were read
	// Unreadable runs are left out.
	Unreadable []unreadableRun
}

// unreadableRun is a run whose record cannot be read, and why.
type unreadableRun struct {
	Run     run.ID `json:"run"`
	Problem string `json:"problem"`
}

// decisions reads what was decided in the runs with these ids, or in all runs.
// With all, a run that cannot be read does not hide the others.
func (a *app) decisions(ctx context.Context, ids []string, all bool) (history, error) {
	if all == (len(ids) > 0) {
		return history{}, errors.New("of which runs? name them by id, or say --all")
	}
	if all {
		list, err := a.allRuns(ctx, "")
		if err != nil {
			return history{}, err
		}
		for _, r := range list {
			ids = append(ids, string(r.ID))
		}
	}
	var h history
	for _, id := range ids {
		of, err := a.engine.Decisions(ctx, a.caller(), run.ID(id))
		switch {
		case err == nil:
			h.Decided = append(h.Decided, of...)
			h.Runs++
		case all && ctx.Err() == nil:
			h.Unreadable = append(h.Unreadable, unreadableRun{Run: run.ID(id), Problem: err.Error()})
		default:
			return history{}, a.missing(ctx, run.ID(id), fmt.Errorf("run %s: %w", id, err))
		}
	}
	return h, nil
}

// incomplete is the error of a command that left runs out, after it printed the rest.
func incomplete(left []unreadableRun) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("left out %s that cannot be read; `kairos doctor` says what to do", count(len(left), "run"))
}

func (p *printer) unreadable(left []unreadableRun) {
	for _, r := range left {
		p.printf("run %s cannot be read: %s\n", r.Run, r.Problem)
	}
}

// coverageReport is what `tree coverage` prints.
type coverageReport struct {
	Runs int `json:"runs"`
	decision.Coverage
	Never      []string        `json:"never"` // paths
	Unreadable []unreadableRun `json:"unreadable,omitempty"`
}

func treeCoverageCommand(at *session) *cobra.Command {
	out := new(format)
	var all bool
	var file string
	cmd := &cobra.Command{
		Use: "coverage [RUN...]", Short: "Count which rules and routes runs have ever taken",
		Long: "Counts how many decisions of the runs looked at each rule and route of the tree, chose it, and got an answer\n" +
			"from it. What no decision chose is listed at the end: either no run has needed it yet, or it can never be taken.\n" +
			"Decisions of another tree are made again on the facts that the run has kept.",
		Example: "  kairos tree coverage --all\n  kairos tree coverage --tree new.yaml 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2",
		RunE: func(cmd *cobra.Command, ids []string) error {
			tree, err := at.tree(file)
			if err != nil {
				return err
			}
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				made, err := a.decisions(ctx, ids, all)
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
				if err := out.print(cmd.OutOrStdout(), r, func(p *printer) { p.coverage(r) }); err != nil {
					return err
				}
				return incomplete(r.Unreadable)
			})
		},
	}
	out.addTo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all runs that the database has")
	cmd.Flags().StringVar(&file, "tree", "", "this tree; empty: the configured one")
	return cmd
}

func (p *printer) coverage(r coverageReport) {
	p.printf("%s of %s", count(r.Decisions, "decision"), count(r.Runs, "run"))
	if r.Replayed > 0 {
		p.printf("; %d of another tree, made again on this one", r.Replayed)
	}
	if r.Unknown > 0 {
		p.printf("; %d not counted, because their facts were not kept", r.Unknown)
	}
	p.printf("\n\n")
	rows := [][]string{{"RULE OR ROUTE", "LINE", "LOOKED AT", "CHOSEN", "", "ANSWERED"}}
	for _, n := range r.Nodes {
		answered := ""
		if n.Via != "" {
			answered = fmt.Sprint(n.Answered)
		}
		rows = append(rows, []string{nodeName(n), fmt.Sprint(n.Line), fmt.Sprint(n.Looked), fmt.Sprint(n.Chosen), share(n.Chosen, r.Decisions), answered})
	}
	p.table(rows)
	if len(r.Never) > 0 {
		p.printf("\nnever chosen:\n")
	}
	for _, n := range r.Nodes {
		if slices.Contains(r.Never, n.Path) {
			p.printf("  %s, line %d\n", strings.TrimSpace(nodeName(n)), n.Line)
		}
	}
	p.unreadable(r.Unreadable)
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

func treeDiffCommand(at *session) *cobra.Command {
	out := new(format)
	var all, exitCode bool
	var ids []string
	cmd := &cobra.Command{
		Use: "diff [OLD] NEW", Short: "Tell which steps of past runs would take a different route with another tree",
		Long: "Makes the decisions of runs again on two trees, on the facts that the runs have kept, and tells which would lead\n" +
			"to another driver or another approval, and why. OLD is the configured tree if it is left out.",
		Example: "  kairos tree diff new.yaml --all\n  kairos tree diff old.yaml new.yaml --runs 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --exit-code",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := at.tree(strings.Join(args[:len(args)-1], ""))
			if err != nil {
				return err
			}
			after, err := at.tree(args[len(args)-1])
			if err != nil {
				return err
			}
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				made, err := a.decisions(ctx, ids, all)
				if err != nil {
					return err
				}
				r := compareTrees(before, after, made.Decided)
				r.Runs, r.Unreadable = made.Runs, made.Unreadable
				if err := out.print(cmd.OutOrStdout(), r, func(p *printer) { p.treeDiff(r) }); err != nil {
					return err
				}
				if n := len(r.Differences); exitCode && n > 0 {
					return fmt.Errorf("%s would take a different route", count(n, "decision"))
				}
				return incomplete(r.Unreadable)
			})
		},
	}
	out.addTo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all runs that the database has")
	cmd.Flags().StringSliceVar(&ids, "runs", nil, "ids of the runs")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if anything would take a different route")
	return cmd
}

func compareTrees(before, after *decision.Tree, made []engine.Decided) treeDiffReport {
	r := treeDiffReport{Old: before.Digest(), New: after.Digest(), Differences: []treeDifference{}}
	var last engine.Decided
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

func (p *printer) treeDiff(r treeDiffReport) {
	for _, d := range r.Differences {
		p.printf("run %s, step %d %q, %s\n", d.Run, d.Step, d.Label, d.Input)
		p.field("old", way(d.Old))
		p.field("new", way(d.New))
		for _, why := range d.Why {
			p.field("why", why)
		}
		p.doubts(d)
		p.printf("\n")
	}
	for _, d := range r.Doubtful {
		p.printf("run %s, step %d %q, %s: perhaps\n", d.Run, d.Step, d.Label, d.Input)
		p.doubts(d)
		p.printf("\n")
	}
	p.printf("%d of %s of %s would take a different route\n", len(r.Differences), count(r.Decisions, "decision"), count(r.Runs, "run"))
	if r.Following > 0 {
		p.printf("%s left out, because they follow from one above\n", count(r.Following, "decision"))
	}
	if r.Elsewhere > 0 {
		p.printf("%s made by neither of the two trees\n", count(r.Elsewhere, "decision"))
	}
	if r.Unknown > 0 {
		p.printf("%s left out, because their facts were not kept\n", count(r.Unknown, "decision"))
	}
	p.unreadable(r.Unreadable)
}

func (p *printer) doubts(d treeDifference) {
	for _, fact := range d.Doubts {
		p.field("unknown", "the new tree looks at "+fact+", which the run has not kept")
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

// walkedAgain is a recorded decision, and what the tree says of it now.
type walkedAgain struct {
	engine.Decided
	// Now is set where another tree is in use.
	Now *decision.Difference `json:"now,omitempty"`
}

// explainRun explains the decisions of a run, or with a step of that step. Of
// those that were erased it notes so.
func (a *app) explainRun(ctx context.Context, tree *decision.Tree, id run.ID, step int, notes io.Writer) ([]walkedAgain, error) {
	made, err := a.engine.Decisions(ctx, a.caller(), id)
	if err != nil {
		return nil, err
	}
	line, err := a.engine.Timeline(ctx, a.caller(), id)
	if err != nil {
		return nil, err
	}
	if step < 0 || step > line.Run.StepCount {
		return nil, fmt.Errorf("--step is %d: run %s has steps 1 to %d", step, id, line.Run.StepCount)
	}
	for n := 1; n <= line.Run.StepCount; n++ {
		if at, erased := line.Erased(n); erased && (step == 0 || step == n) {
			(&printer{w: notes}).printf("note: what was decided for step %d was redacted %s: %s\n", n, moment(at.At), at.Verdict)
		}
	}
	out := []walkedAgain{}
	for _, d := range made {
		if step != 0 && d.Step != step {
			continue
		}
		x := walkedAgain{Decided: d}
		if d.Record != nil && d.Record.Tree != tree.Digest() {
			now, _ := decision.Compare(tree, tree, *d.Record)
			x.Now = &now
		}
		out = append(out, x)
	}
	if _, erased := line.Erased(step); len(out) == 0 && step != 0 && !erased {
		return nil, fmt.Errorf("nothing was decided for step %d of run %s", step, id)
	}
	return out, nil
}

// explain prints a decision; what its conditions looked at comes from clients.
func (p *printer) explain(d interface{ Explain(w io.Writer) error }) {
	var b strings.Builder
	if err := d.Explain(&b); err != nil && p.err == nil {
		p.err = err
	}
	p.printf("%s", lines(b.String()))
}

func (p *printer) walked(list []walkedAgain) {
	for _, x := range list {
		p.printf("%s  step %d %q, %s\n", moment(x.At), x.Step, x.Label, x.Input)
		p.explain(x)
		switch {
		case x.Answered:
			p.printf("   answered in %v\n", x.Took.Round(10*time.Microsecond))
		case x.Outcome != "":
			p.printf("   %s after %v\n", x.Outcome, x.Took.Round(10*time.Microsecond))
		}
		if x.Now != nil {
			p.printf("   another tree decided this; the one in use now would go %s\n", way(x.Now.New))
		}
		p.printf("\n")
	}
}
