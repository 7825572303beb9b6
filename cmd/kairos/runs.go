package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
)

func runsCommand(at *source) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "Look at runs"}
	out := new(format)
	out.addTo(cmd)
	list := &cobra.Command{
		Use: "list", Short: "List the runs that can go on", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				runs, err := a.engine.Runs(ctx, localCaller())
				if err != nil {
					return err
				}
				if runs == nil {
					runs = []run.Summary{}
				}
				return out.print(cmd.OutOrStdout(), runs, func(p *printer) { p.runs(runs) })
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
				return out.print(cmd.OutOrStdout(), line, func(p *printer) { p.timeline(line) })
			})
		},
	}
	cmd.PersistentFlags().BoolFunc("json", "the same as --output json", func(string) error { *out = formatJSON; return nil })
	cmd.AddCommand(list, show)
	return cmd
}

func (p *printer) runs(runs []run.Summary) {
	rows := [][]string{{"RUN", "PROTOCOL", "STATE", "STEP", "CHANGED"}}
	for _, r := range runs {
		at := fmt.Sprintf("%d/%d", min(r.StepIndex, r.StepCount), r.StepCount)
		rows = append(rows, []string{string(r.ID), r.Title, string(r.State), at, moment(r.UpdatedAt)})
	}
	p.table(rows)
}

func printTimeline(w io.Writer, line engine.Timeline) error {
	p := &printer{w: w}
	p.timeline(line)
	return p.err
}

// timeline tells a run: a block for each step, a line for each moment.
func (p *printer) timeline(line engine.Timeline) {
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
