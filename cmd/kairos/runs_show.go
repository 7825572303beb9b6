package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
)

// runsShow is `kairos runs show`: what happened in one run.
func runsShow(at *session, out *format) *cobra.Command {
	var html, tree string
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Tell what happened in a run", Args: cobra.ExactArgs(1),
		Long: "Tells what happened in a run, step by step. With --html it is one web page that needs nothing from elsewhere:\n" +
			"the steps, for each the decision tree with the way that was taken, and what was asked and answered. The page\n" +
			"holds the evidence, so give it only to whom you would give that.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.withRun(cmd.Context(), args[0], func(ctx context.Context, a *app, id run.ID) error {
				line, err := a.engine.Timeline(ctx, a.caller(), id)
				if err != nil {
					return err
				}
				if html == "" {
					return out.print(cmd.OutOrStdout(), line, func(p *printer) { p.timeline(line) })
				}
				drawn, err := at.tree(tree)
				if err != nil {
					return err
				}
				made, err := a.engine.Decisions(ctx, a.caller(), line.Run.ID)
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
	tell(cmd.ErrOrStderr(), "wrote %s\n", to)
	return nil
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
			if at, erased := line.Erased(step); erased {
				p.printf("     redacted %s: %s\n", moment(at.At), at.Verdict)
			}
		}
		p.moment(m)
	}
	if line.Unscrubbed {
		p.printf("\n  erased values of this run may still be in the files of the database: `kairos doctor` removes them\n")
	}
	switch {
	case line.Verified:
		p.printf("\n  verified: every step's evidence was accepted and the proof chain is whole\n")
	default:
		p.printf("\n  not verified: %s\n", line.Problem)
	}
}

func (p *printer) moment(m engine.Moment) {
	head := strings.ReplaceAll(m.What, "_", " ")
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
	if m.Took > 0 {
		p.field("took", m.Took.Round(10*time.Microsecond).String())
	}
	p.field("proof", m.ProofHash)
}

func compactJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return api.Readable(raw)
}
