package present

import (
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
		Provenance: p.Provenance, Output: r.Evidence[i].Output, ProofHash: p.Hash,
		Files: files(*r.Evidence[i]), Verdict: verdict,
	}
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
