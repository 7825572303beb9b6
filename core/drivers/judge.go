package drivers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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

// Place is where a protocol that is checked would be stored.
type Place struct {
	Space string // empty: not known
	Chain protocol.Chain
}

// demandAt is what a step and the policy demand of its evidence, as far as that is
// known before a run.
func (s Setup) demandAt(at Place, i int) decision.Demand {
	step := at.Chain.Steps[i]
	facts := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: s.Tree.NoChallengeType(), Name: step.Name},
		Step:      decision.StepFacts{Index: i + 1, Count: len(at.Chain.Steps), Name: step.Name},
		Protocol:  decision.ProtocolFacts{Space: at.Space},
	}
	var only []driver.Provenance
	if common, err := protocol.CommonOf(step.Challenge); err == nil && step.Challenge != nil {
		common.Type = cmp.Or(common.Type, s.Tree.MissingType())
		facts.Challenge, facts.Step.Approval = ChallengeFacts(step.Name, common, step.Challenge), common.ApprovalMode
		only = common.Evidence.Provenances()
	}
	if s.Tree.ReadsDigest() {
		facts.Protocol.Digest, _ = at.Chain.ContentDigest() // a text without one is refused elsewhere
	}
	return s.Tree.DemandOfText(facts).Narrowed(only)
}

// Worth says what the steps of the protocol will be worth at least (run.Worth), as far as
// that is known before a run.
func (s Setup) Worth(at Place) string {
	all := make([]run.Voucher, len(at.Chain.Steps))
	for i, step := range at.Chain.Steps {
		switch demand := s.demandAt(at, i); {
		case step.Challenge == nil:
		case demand.Provenances == nil:
			all[i].Provenance = driver.AgentReported
		default:
			all[i].Provenance = run.Weakest(demand.Provenances)
		}
	}
	return run.Worth(len(all), all)
}

// Contradiction says why no evidence of the step can meet the demand, and what to
// do; empty: some can.
func Contradiction(step protocol.Step, d decision.Demand) string {
	by := "the operator's policy (" + strings.Join(d.By, "; ") + ")"
	switch {
	case d.Impossible():
		if common, err := protocol.CommonOf(step.Challenge); err == nil && common.Evidence.Provenances() != nil {
			return fmt.Sprintf("the step takes evidence only from %s, and %s takes none of it: change \"evidence\" of the step, or ask the operator to change the policy of the decision tree",
				common.Evidence, by)
		}
		return by + " contradicts itself and takes no evidence at all: ask the operator to change the policy of the decision tree"
	case step.Challenge == nil && !d.Counts(driver.AgentReported):
		return by + " demands evidence, and the step has no challenge: give it one, or ask the operator to change the policy of the decision tree"
	}
	return ""
}

// Contradicted refuses a step of which no evidence can count. It returns nil if some can.
func (s Setup) Contradicted(at Place, i int) *protocol.Diagnostic {
	step := at.Chain.Steps[i]
	if why := Contradiction(step, s.demandAt(at, i)); why != "" {
		return step.Problem("", "no evidence of this step can count: "+why)
	}
	return nil
}

// Unvouched warns of a step whose evidence nobody could supply, because no route
// of the tree leads to a driver whose word counts. It returns nil if one does.
func (s Setup) Unvouched(at Place, i int, use string) *protocol.Diagnostic {
	step := at.Chain.Steps[i]
	demand := s.demandAt(at, i)
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || demand.Provenances == nil || demand.Impossible() {
		return nil
	}
	if judge, _, _ := s.Drivers.Describe(use); MayClaim(judge, driver.ServerObserved) && s.couldCount(use, driver.ServerObserved, demand) {
		return nil
	}
	common.Type = cmp.Or(common.Type, s.Tree.MissingType())
	for _, via := range s.Tree.EvidenceVia(ChallengeFacts(step.Name, common, step.Challenge)) {
		if s.supplies(via, demand) {
			return nil
		}
	}
	d := step.Problem("/evidence", fmt.Sprintf("evidence is %q, and no configured route can supply such evidence for type %q: every run will stop here",
		common.Evidence, plain.Clip(common.Type, 80)))
	if len(demand.By) > 0 {
		d = step.Problem("", fmt.Sprintf("no configured route can supply evidence for type %q that meets the operator's policy (%s): every run will stop here",
			plain.Clip(common.Type, 80), strings.Join(demand.By, "; ")))
	}
	d.Severity = driver.SeverityWarning
	return d
}

// SeverityNote is of what may well be meant.
const SeverityNote driver.Severity = "note"

// BelievesModel notes a step that may be proved by what a model writes, although a
// driver could do it itself if that was accepted. It returns nil for other steps.
func (s Setup) BelievesModel(at Place, i int) *protocol.Diagnostic {
	if !s.believesModel(at, i) {
		return nil
	}
	d := at.Chain.Steps[i].Problem("/sampling", `a model may write the evidence of this step, which KAIROS can do itself: demand that with "evidence": "server", or accept it with kairos accept`)
	d.Severity = SeverityNote
	return d
}

func (s Setup) believesModel(at Place, i int) bool {
	step := at.Chain.Steps[i]
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || common.Sampling == nil || !s.demandAt(at, i).Counts(driver.ModelGenerated) {
		return false
	}
	common.Type = cmp.Or(common.Type, s.Tree.MissingType())
	return slices.ContainsFunc(s.Tree.EvidenceVia(ChallengeFacts(step.Name, common, step.Challenge)), func(via string) bool {
		desc, _, _ := s.Drivers.Describe(via)
		return desc.Has(driver.FeaturePreview)
	})
}

func (s Setup) supplies(via string, demand decision.Demand) bool {
	desc, _, _ := s.Drivers.Describe(via)
	return slices.ContainsFunc(demand.Provenances, func(p driver.Provenance) bool {
		return Supplies(desc, p) && s.couldCount(via, p, demand)
	})
}

// couldCount reports whether an answer of the driver with the provenance would count,
// with the limits that the operator set.
func (s Setup) couldCount(via string, p driver.Provenance, demand decision.Demand) bool {
	strongest, _ := s.Drivers.Limits(via)
	within := strongest == "" || run.Weakest([]driver.Provenance{p, strongest}) == p
	return within && demand.Counts(p)
}

// ChallengeFacts are the facts of a step's challenge, before and during a run.
func ChallengeFacts(step string, c protocol.Common, challenge json.RawMessage) decision.ChallengeFacts {
	return decision.ChallengeFacts{
		Type: c.Type, Name: step, Required: c.IsRequired(),
		HasSampling: c.Sampling != nil, HasOutputSchema: len(c.OutputSchema) > 0,
		FilesRequired: c.FilesRequired, Params: decision.Member(challenge, c.Type),
	}
}
