package present

import (
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Attested fills in who vouches for what.
func Attested(reply *api.AttestReply, r run.Run, chain protocol.Chain) {
	var all []driver.Provenance
	for i, p := range r.Proofs {
		ev, solved := r.Evidence[i], Solved(r, chain, i)
		reply.Steps = append(reply.Steps, api.AttestedStep{
			StepIndex: p.Step, URI: solved.URI, Label: solved.Label, Provenance: p.Provenance,
			Driver: solved.Driver, Via: solved.Via, Verdict: ev.Verdict(), Files: solved.Files,
		})
		if reply.StepsByProvenance == nil {
			reply.StepsByProvenance = make(map[driver.Provenance]int)
		}
		reply.StepsByProvenance[p.Provenance]++
		all = append(all, p.Provenance)
		if solved.Files != nil {
			all = append(all, solved.Files.Provenance)
		}
		if a := ev.Approval; a != nil {
			reply.Approvals = append(reply.Approvals, api.AttestedApproval{
				StepIndex: p.Step, Via: a.Via, Provenance: a.Provenance, Basis: string(a.Basis), By: a.Names(), ApprovedAt: a.GrantedAt.UTC().Format(time.RFC3339Nano),
			})
		}
		if !ev.RedactedAt.IsZero() {
			reply.Redactions = append(reply.Redactions, api.AttestedRedaction{StepIndex: p.Step, RedactedAt: ev.RedactedAt.UTC().Format(time.RFC3339Nano)})
		}
	}
	reply.WeakestProvenance = run.Weakest(all)
	tried(reply, r, chain)
}

// tried fills in what did not succeed at once, so that a success does not look like the only attempt.
func tried(reply *api.AttestReply, r run.Run, chain protocol.Chain) {
	discarded := 0
	for _, s := range r.Unsuccessful() {
		tries := api.AttestedTries{
			StepIndex: s.Step, URI: protocol.URI(chain.Steps[s.Step-1].UUID), Solved: s.Solved,
			Attempts: s.Times, Failures: s.Failures, Discarded: s.Discarded,
		}
		for _, o := range s.Observed.All() {
			tries.Observations = append(tries.Observations, api.AttestedFailure{At: o.At.UTC().Format(time.RFC3339Nano), Driver: o.Via, Code: o.Code})
		}
		reply.Tries = append(reply.Tries, tries)
		discarded += s.Discarded
	}
	if discarded > 0 {
		reply.Message = plain.Sentences(reply.Message, fmt.Sprintf("%d observations of KAIROS itself did not count before (tries).", discarded))
	}
}
