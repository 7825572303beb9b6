package drivers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// TypeOf is the challenge type under which a step is shown.
func (s Setup) TypeOf(step protocol.Step) string {
	c, err := protocol.CommonOf(step.Challenge)
	if step.Challenge == nil || err != nil {
		return s.Tree.NoChallengeType()
	}
	return cmp.Or(c.Type, s.Tree.MissingType())
}

// JudgeOf names the driver that judges the step's challenge.
func (s Setup) JudgeOf(step protocol.Step) (string, *protocol.Diagnostic) {
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil {
		return "", step.Problem("", err.Error())
	}
	common.Type = cmp.Or(common.Type, s.Tree.MissingType())
	d := s.Tree.Decide(driver.KindEvidence, decision.Facts{Challenge: ChallengeFacts(step.Name, common, step.Challenge)})
	if d.Use == "" {
		meant := "; the types are " + strings.Join(s.Tree.Types(), ", ")
		if closest := s.Tree.ClosestType(common.Type); closest != "" {
			meant = fmt.Sprintf("; did you mean %q?", closest)
		}
		return "", step.Problem("/type", fmt.Sprintf("no configured driver handles challenges of type %q%s", plain.Clip(common.Type, 80), meant))
	}
	return d.Use, nil
}

// Unvouched warns of a step whose evidence nobody could supply, because no route
// of the tree leads to a driver whose word counts; nil: somebody could.
func (s Setup) Unvouched(step protocol.Step, use string) *protocol.Diagnostic {
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || common.EvidenceFrom.Provenances() == nil {
		return nil
	}
	if judge, _, _ := s.Drivers.Describe(use); common.EvidenceFrom.Counts(StrongestClaim(judge)) {
		return nil
	}
	common.Type = cmp.Or(common.Type, s.Tree.MissingType())
	for _, via := range s.Tree.EvidenceVia(ChallengeFacts(step.Name, common, step.Challenge)) {
		if s.supplies(via, common.EvidenceFrom) {
			return nil
		}
	}
	d := step.Problem("/evidence_from", fmt.Sprintf("evidence_from is %q, and no configured route can supply such evidence for type %q: every run will stop here",
		common.EvidenceFrom, plain.Clip(common.Type, 80)))
	d.Severity = driver.SeverityWarning
	return d
}

func (s Setup) supplies(via string, from protocol.EvidenceFrom) bool {
	desc, _, _ := s.Drivers.Describe(via)
	strongest, _ := s.Drivers.Limits(via)
	for _, p := range from.Provenances() {
		if Supplies(desc, p) && (strongest == "" || run.Weakest([]driver.Provenance{p, strongest}) == p) {
			return true
		}
	}
	return false
}

// ChallengeFacts are the facts of a step's challenge, before and during a run.
func ChallengeFacts(step string, c protocol.Common, challenge json.RawMessage) decision.ChallengeFacts {
	return decision.ChallengeFacts{
		Type: c.Type, Name: step, Required: c.IsRequired(),
		HasSampling: c.Sampling != nil, HasOutputSchema: len(c.OutputSchema) > 0,
		FilesRequired: c.FilesRequired, Params: decision.Member(challenge, c.Type),
	}
}
