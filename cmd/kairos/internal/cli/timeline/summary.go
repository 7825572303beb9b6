package timeline

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/archive"
)

// Summary writes in a few lines what became of a run that took that long at this
// terminal. kept: the run is still there afterwards.
func Summary(w io.Writer, line archive.Timeline, took time.Duration, kept bool) error {
	p := &output.Printer{W: w}
	r := line.Run
	if line.Verified {
		p.Printf("\nverified: every step's evidence was accepted and the proof chain is whole\n")
	} else {
		p.Printf("\nnot verified: %s\n", output.Short(line.Problem))
	}
	p.Printf("%s: %s in %s\n", r.Title, proved(line), took.Round(time.Second))
	id := output.ShortID(string(r.ID))
	switch {
	case !kept:
		p.Printf("nothing is kept of run %s: it was temporary\n", r.ID)
		return p.Err
	case r.State.Live():
		p.Printf("run %s is open:\n", r.ID)
		p.Printf("  %-45s continues it\n", "kairos runs resume "+id+" --play")
	default:
		p.Printf("run %s is kept:\n", r.ID)
		p.Printf("  %-45s a signed statement of it\n", "kairos runs export "+id+" --file run.json")
	}
	p.Printf("  %-45s what happened, step by step\n", "kairos runs show "+id)
	return p.Err
}

// proved says how many steps have a proof, and who vouches for how many.
func proved(line archive.Timeline) string {
	vouches := map[int]string{} // by step
	for _, m := range line.Moments {
		if m.ProofHash != "" {
			vouches[m.Step] = string(m.Provenance)
		}
	}
	count := map[string]int{}
	for _, provenance := range vouches {
		count[provenance]++
	}
	text := fmt.Sprintf("%d of %s", len(vouches), output.Count(line.Run.StepCount, "step"))
	var each []string
	for _, provenance := range slices.Sorted(maps.Keys(count)) {
		each = append(each, fmt.Sprintf("%d %s", count[provenance], provenance))
	}
	if len(each) > 0 {
		text += " (" + strings.Join(each, ", ") + ")"
	}
	return text
}
