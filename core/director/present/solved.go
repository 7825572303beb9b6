package present

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// Solved is what a reply says of a solved step, by its index in the protocol.
func Solved(r run.Run, chain protocol.Chain, i int) api.Solved {
	p, step := r.Proofs[i], chain.Steps[i]
	verdict := ""
	if r.Evidence[i].Failed {
		verdict = r.Evidence[i].Verdict()
	}
	return api.Solved{
		StepIndex: p.Step, URI: protocol.URI(step.UUID), Label: step.Heading(), Driver: p.Driver.Name, Via: p.Via.Name,
		Provenance: p.Provenance, Output: repeated(r.Evidence[i].Output, step.Name, p.Provenance), ProofHash: p.Hash,
		Files: files(*r.Evidence[i]), Verdict: verdict,
	}
}

// obtained leaves out what the agent has just reported itself: the message names those steps.
// One with more to say stays: it failed, or its files were looked at.
func obtained(solved []api.Solved) []api.Solved {
	var out []api.Solved
	for _, s := range solved {
		if s.Provenance != driver.AgentReported || s.Verdict != "" || s.Files != nil {
			out = append(out, s)
		}
	}
	return out
}

// maxObtained is how much of a result a reply repeats, in bytes. Large results only fill the context
// of an agent: later steps have them by their templates.
const maxObtained = 8 << 10

// repeated is a result as a reply repeats it, or a text that says how large it is. An agent knows
// what it reported itself.
func repeated(output json.RawMessage, step string, by driver.Provenance) json.RawMessage {
	switch {
	case by == driver.AgentReported:
		return nil
	case len(output) <= maxObtained:
		return output
	}
	note, err := json.Marshal(fmt.Sprintf("not repeated: %d bytes; later steps read it as {{ steps.%s }}", len(output), step))
	if err != nil {
		return nil // cannot be: it is a text
	}
	return note
}

// files is nil for a step that demanded none.
func files(ev run.Evidence) *api.SolvedFiles {
	for _, a := range ev.Answers {
		if a.InputID != driver.KindFiles {
			continue
		}
		f := &api.SolvedFiles{Via: a.Via, Provenance: a.Provenance}
		if result, ok := filecheck.ReadResult(a.Value); ok && a.Provenance != driver.AgentReported {
			f.Passed = &result.Passed
		}
		return f
	}
	return nil
}
