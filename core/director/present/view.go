// Package present makes replies of the state of a run. It is pure: it knows no
// store and calls no driver.
package present

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// View is what a call may show of a run.
type View struct {
	Run    run.Run
	Chain  protocol.Chain
	Note   string       // what the reply says besides
	Solved []api.Solved // the steps that the call solved
}

// Text is the text of a step, 1-based, with the values it refers to.
func (v View) Text(step int) string { return v.Chain.FillText(step-1, runs.Scope(v.Run, v.Chain)) }

// Content is the text of a step as those read it who do it: the first step begins with
// the protocol's introduction.
func (v View) Content(step int) string {
	if step == 1 {
		return v.Chain.Introduced(v.Text(step))
	}
	return v.Text(step)
}

// Reply is the reply every other grows from: the open step and where it stands.
func (v View) Reply(step protocol.Step, shown driver.AgentChallenge) api.StepReply {
	r := api.StepReply{
		MustObey: true,
		CurrentStep: api.CurrentStep{
			URI: protocol.URI(step.UUID), Content: v.Content(min(v.Run.Step.Index, len(v.Chain.Steps))), MIMEType: "text/markdown",
		},
		Challenge: api.Challenge{
			Type: shown.Type, Description: shown.Description, Display: shown.Display,
			Nonce: v.Run.Step.Nonce, ProofHash: v.Run.ProofHash(),
		},
		Message: v.Note, RunID: string(v.Run.ID),
		StepIndex: min(v.Run.Step.Index, len(v.Chain.Steps)), StepCount: len(v.Chain.Steps), Solved: obtained(v.Solved),
	}
	if n := len(v.Solved); n > 0 {
		r.ProofHash = v.Solved[n-1].ProofHash
		r.Message = plain.Sentences(message(v.Solved), r.Message)
	}
	if how := inParts(r.CurrentStep.Content); how != "" {
		r.Message = plain.Sentences(r.Message, how)
	}
	return r
}

// inParts says how to read a long content, of which programs of agents may show the beginning only.
func inParts(content string) string {
	if len(content) <= protocol.LongStep {
		return ""
	}
	return fmt.Sprintf("If current_step.content is cut, call kairos_dump with its uri, run_id and part, from 1 to %d", len(protocol.Parts(Shown(content))))
}

// Shown is a content as a reply shows it: hidden characters by their codes.
func Shown(content string) string { return plain.Text(content) }

func message(solved []api.Solved) string {
	parts := make([]string, len(solved))
	for i, s := range solved {
		what, files := "is solved", ""
		if s.Verdict != "" {
			what = s.Verdict
		}
		if s.Files != nil {
			files = "; its files: " + string(s.Files.Provenance)
		}
		parts[i] = fmt.Sprintf("Step %d %s (%s%s).", s.StepIndex, what, s.Provenance, files)
	}
	return strings.Join(parts, " ")
}

// OpenURI is the open step's, or when all are solved the last one's.
func (v View) OpenURI() string {
	return protocol.URI(v.Chain.Steps[min(v.Run.Step.Index, len(v.Chain.Steps))-1].UUID)
}
