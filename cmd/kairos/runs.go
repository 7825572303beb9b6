package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
)

func runsCommand(at *source) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "Look at runs"}
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List the runs that can go on", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				runs, err := a.engine.Runs(ctx, localCaller())
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), runs)
				}
				return printRuns(cmd.OutOrStdout(), runs)
			})
		},
	}
	show := &cobra.Command{
		Use: "show RUN", Short: "Tell what happened in a run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				line, err := a.engine.Timeline(ctx, localCaller(), run.ID(args[0]))
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), line)
				}
				return printTimeline(cmd.OutOrStdout(), line)
			})
		},
	}
	cmd.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(list, show)
	return cmd
}

func printRuns(w io.Writer, runs []run.Summary) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tPROTOCOL\tSTATE\tSTEP\tCHANGED")
	for _, r := range runs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\n", r.ID, r.Title, r.State, min(r.StepIndex, r.StepCount), r.StepCount,
			r.UpdatedAt.Local().Format("2006-01-02 15:04:05"))
	}
	return t.Flush()
}

// printTimeline tells a run: a block for each step, a line for each moment.
func printTimeline(w io.Writer, line engine.Timeline) error {
	p := &printer{w: w}
	p.printf("%s   run %s\n", line.Run.Title, line.Run.ID)
	step := 0
	for _, m := range line.Moments {
		if m.Step != step && m.Step <= line.Run.StepCount {
			step = m.Step
			p.printf("\n  %d. %s\n", m.Step, m.Label)
		}
		p.moment(m)
	}
	switch {
	case line.Verified:
		p.printf("\n  verified: every step's evidence was accepted and the proof chain is whole\n")
	default:
		p.printf("\n  not verified: %s\n", line.Problem)
	}
	return p.err
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) field(name, value string) {
	if value != "" {
		p.printf("       %-10s %s\n", name, value)
	}
}

func (p *printer) moment(m engine.Moment) {
	head := m.What
	if m.Via != "" {
		head += " via " + m.Via
	}
	p.printf("     %s  %s\n", m.At.Local().Format("15:04:05.000"), head)
	p.field("why", m.Why)
	p.field("question", short(m.Question))
	p.field("answer", short(compactJSON(m.Answer)))
	p.field("provenance", string(m.Provenance))
	p.field("driver", m.Driver)
	p.field("verdict", short(m.Verdict))
	p.field("proof", m.ProofHash)
}

func compactJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return string(raw)
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
