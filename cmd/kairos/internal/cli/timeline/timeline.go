// Package timeline prints what happened in a run.
package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/archive"
)

// Timeline tells a run: a block for each step, a line for each moment.
func Timeline(p *output.Printer, line archive.Timeline) {
	p.Printf("%s   run %s\n", line.Run.Title, line.Run.ID)
	if line.Protocol != nil {
		p.Printf("  follows %s\n", line.Protocol)
	}
	step := 0
	for _, m := range line.Moments {
		if m.Step != step && m.Step <= line.Run.StepCount {
			step = m.Step
			p.Printf("\n  %d. %s\n", m.Step, m.Label)
			if at, erased := line.Erased(step); erased {
				p.Printf("     redacted %s: %s\n", output.Moment(at.At), at.Verdict)
			}
			printTries(p, line, step)
		}
		printMoment(p, m)
	}
	if line.Unscrubbed {
		p.Printf("\n  erased values of this run may still be in the files of the database: `kairos doctor` removes them\n")
	}
	switch {
	case line.Verified:
		p.Printf("\n  verified: %s\n", line.Worth)
	default:
		p.Printf("\n  not verified: %s\n", line.Problem)
		if line.Worth != "" {
			p.Printf("  proved: %s\n", line.Worth)
		}
	}
}

// printTries tells what was tried at a step without success, and the last of it that
// the moments do not tell.
func printTries(p *output.Printer, line archive.Timeline, step int) {
	tries, tried := line.TriesOf(step)
	if !tried {
		return
	}
	head := "tried before"
	if !tries.Solved {
		head = "tried so far"
	}
	p.Printf("     %s: %s\n", head, tries.Counts())
	if tries.LeftOut == 0 {
		return
	}
	for _, f := range tries.Failed.Last {
		p.Field("failed", output.Short(fmt.Sprintf("%s %s: %s", output.Moment(f.At), f.Code, f.Reason)))
	}
}

func printMoment(p *output.Printer, m archive.Moment) {
	head := strings.ReplaceAll(m.What, "_", " ")
	if m.Via != "" {
		head += " via " + m.Via
	}
	p.Printf("     %s  %s\n", m.At.Local().Format("15:04:05.000"), head)
	p.Field("why", m.Why)
	p.Field("question", output.Short(m.Question))
	p.Field("answer", output.Short(output.CompactJSON(m.Answer)))
	p.Field("provenance", string(m.Provenance))
	p.Field("files", string(m.Files))
	p.Field("driver", m.Driver)
	p.Field("verdict", output.Short(m.Verdict))
	if m.Took > 0 {
		p.Field("took", m.Took.Round(10*time.Microsecond).String())
	}
	p.Field("proof", p.Digest(m.ProofHash))
}
