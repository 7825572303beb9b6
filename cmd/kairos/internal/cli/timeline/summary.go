package timeline

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

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
	if line.Verified {
		p.Printf("\nverified: every step's evidence was accepted and the proof chain is whole\n")
	} else {
		p.Printf("\nnot verified: %s\n", output.Short(line.Problem))
	}
	proofs := proofsOf(line)
	p.Printf("%s: %d of %s in %s\n", r.Title, len(proofs), output.Count(r.StepCount, "step"), how.Took.Round(time.Second))
	printVouchers(p, proofs)
	id := output.ShortID(string(r.ID))
	switch {
	case !how.Kept:
		p.Printf("nothing is kept of run %s: it was temporary\n", r.ID)
		return p.Err
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

// proofsOf are the accepted steps of a run: the last proof of each.
func proofsOf(line archive.Timeline) map[int]archive.Moment {
	proofs := map[int]archive.Moment{}
	for _, m := range line.Moments {
		if m.ProofHash != "" {
			proofs[m.Step] = m
		}
	}
	return proofs
}

// vouchers are the provenances, strongest first, and what each is worth.
var vouchers = []struct {
	provenance driver.Provenance
	says       string
}{
	{driver.ServerObserved, "KAIROS looked itself"},
	{driver.ClientAttested, "a person answered a form of the client"},
	{driver.LinkHolder, "somebody with the link answered"},
	{driver.ModelGenerated, "a model answered"},
	{driver.AgentReported, "the agent says so"},
}

// printVouchers says for how many steps each provenance stands. The files of a
// step have one of their own.
func printVouchers(p *output.Printer, proofs map[int]archive.Moment) {
	for _, v := range vouchers {
		steps, files := 0, map[driver.Provenance]int{}
		for _, m := range proofs {
			if m.Provenance != v.provenance {
				continue
			}
			steps++
			if m.Files != "" && m.Files != m.Provenance {
				files[m.Files]++
			}
		}
		if steps == 0 {
			continue
		}
		says := v.says
		for _, of := range slices.Sorted(maps.Keys(files)) {
			says += fmt.Sprintf("; in %d the files are %s", files[of], of)
		}
		p.Printf("  %d %-15s  %s\n", steps, v.provenance, says)
	}
}
