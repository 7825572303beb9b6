// Package timeline prints what happened in a run.
package timeline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Timeline tells a run: what it is worth, then a block for each step, a line for each moment.
func Timeline(p *output.Printer, line archive.Timeline) {
	p.Printf("%s   run %s%s\n", line.Run.Title, line.Run.ID, app.Of(line.Run.Principal))
	p.Printf("  %s\n", verdict(line))
	if line.Protocol != nil {
		p.Printf("  follows %s\n", line.Protocol)
	}
	step := 0
	for i, m := range line.Moments {
		if m.Step != step && m.Step <= line.Run.StepCount {
			step = m.Step
			p.Printf("\n  %d. %s\n", m.Step, m.Label)
			if at, erased := line.Erased(step); erased {
				p.Printf("     redacted %s: %s\n", output.Moment(at.At), at.Verdict)
			}
			printTries(p, line, step)
		}
		printMoment(p, m, failed(line.Moments[i:]))
	}
	if line.Unscrubbed {
		p.Printf("\n  erased values of this run may still be in the files of the database: `kairos doctor` removes them\n")
	}
}

// verdict says whether the run is verified, and never without what that is worth.
func verdict(line archive.Timeline) string {
	if line.Verified {
		return "verified: " + line.Worth
	}
	return "not verified: " + plain.Continued(output.Short(line.Problem))
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

// failed reports whether the first of the moments has what KAIROS saw itself, and the next one
// of the step rejects it. The answer then says why it failed: the verdict of a driver leaves
// that out, because agents read it.
func failed(moments []archive.Moment) bool {
	m := moments[0]
	if m.Provenance != driver.ServerObserved || len(m.Answer) == 0 {
		return false
	}
	for _, next := range moments[1:] {
		if next.Step != m.Step || next.What != string(run.RouteClosed) {
			return next.Step == m.Step && next.What == string(run.Rejected)
		}
	}
	return false
}

// maxFailure is how much is printed of what came back of a step that failed.
const maxFailure = 4000

func printMoment(p *output.Printer, m archive.Moment, failed bool) {
	head := strings.ReplaceAll(m.What, "_", " ")
	if m.Via != "" {
		head += " via " + m.Via
	}
	p.Printf("     %s  %s\n", m.At.Local().Format("15:04:05.000"), head)
	p.Field("why", m.Why)
	p.Field("question", output.Short(m.Question))
	if failed {
		p.Field("answer", plain.Clip(output.CompactJSON(m.Answer), maxFailure))
	} else {
		p.Field("answer", output.Short(output.CompactJSON(m.Answer)))
	}
	p.Field("by", run.Who(m.Provenance, m.Basis))
	p.Field("files", run.Who(m.Files, ""))
	p.Field("driver", m.Driver)
	p.Field("verdict", output.Short(m.Verdict))
	if m.Took > 0 {
		p.Field("took", m.Took.Round(10*time.Microsecond).String())
	}
	p.Field("proof", p.Digest(m.ProofHash))
}

// lastFailure is what came back of the last step that KAIROS did itself and that failed, if
// nothing was proved since.
func lastFailure(moments []archive.Moment) string {
	for i := len(moments) - 1; i >= 0; i-- {
		switch m := moments[i]; {
		case m.What == string(run.Accepted):
			return ""
		case failed(moments[i:]):
			return plain.Clip(output.CompactJSON(m.Answer), maxFailure)
		}
	}
	return ""
}

// Played is how a run was played at this terminal.
type Played struct {
	Took time.Duration
	// Kept: the run is still there afterwards.
	Kept bool
	// Resume are the arguments of kairos runs resume, behind the id.
	Resume string
}

// Summary writes in a few lines what became of a run.
func Summary(w io.Writer, line archive.Timeline, how Played) error {
	p := &output.Printer{W: w}
	r := line.Run
	p.Printf("\n%s\n", verdict(line))
	if came := lastFailure(line.Moments); came != "" && !line.Verified {
		p.Printf("what came back: %s\n", came)
	}
	p.Printf("%s: %d of %s in %s\n", r.Title, min(max(r.StepIndex-1, 0), r.StepCount), output.Count(r.StepCount, "step"), how.Took.Round(time.Second))
	id := output.ShortID(string(r.ID))
	switch {
	case !how.Kept:
		p.Printf("nothing is kept of run %s: it was temporary\n", r.ID)
		return p.Err
	case undecided(line):
		p.Printf("run %s waits until somebody says what happened; find out first:\n", r.ID)
		p.Printf("  kairos runs decide %s --did-not-happen --reason TEXT   tries it again\n", id)
		p.Printf("  kairos runs decide %s --happened --reason TEXT         takes your word for it\n", id)
	case r.State.Live():
		p.Printf("run %s is open:\n", r.ID)
		p.Printf("  %-45s continues it\n", "kairos runs resume "+id+" "+how.Resume)
	default:
		p.Printf("run %s is kept:\n", r.ID)
		p.Printf("  %-45s a signed statement of it\n", "kairos runs export "+id+" --file run.json")
	}
	p.Printf("  %-45s what happened, step by step\n", "kairos runs show "+id)
	return p.Err
}

// undecided reports whether nobody knows what came of a call of the open step.
func undecided(line archive.Timeline) bool {
	for _, m := range slices.Backward(line.Moments) {
		switch m.What {
		case "outcome_unknown":
			return line.Run.State == run.Waiting
		case "called", "waiting", "settled", "decided":
			return false
		}
	}
	return false
}
