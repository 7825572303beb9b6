package drivers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
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
	Space string // its id; empty: not known
	Chain protocol.Chain
}

// demandAt is what the step and the rules of the operator demand, as far as that is known
// before a run.
func (s Setup) demandAt(at Place, i int) rules.Demand {
	common, err := protocol.CommonOf(at.Chain.Steps[i].Challenge)
	if err != nil {
		return s.RulesAt(at, i)
	}
	return s.RulesAt(at, i).And(rules.OfChallenge(common, s.Realm))
}

// RulesAt is what the rules of the operator alone demand of the step, as far as that is
// known before a run.
func (s Setup) RulesAt(at Place, i int) rules.Demand {
	step := at.Chain.Steps[i]
	sub := rules.Subject{Facts: decision.Facts{
		Challenge: decision.ChallengeFacts{Name: step.Name},
		Step:      decision.StepFacts{Index: i + 1, Count: len(at.Chain.Steps), Name: step.Name},
		Protocol:  ProtocolFacts(at.Chain, at.Space),
	}}
	if common, err := protocol.CommonOf(step.Challenge); err == nil && step.Challenge != nil {
		common.Type = cmp.Or(common.Type, s.Tree.MissingType())
		sub.Facts.Challenge, sub.Facts.Step.Approval = ChallengeFacts(step.Name, common, step.Challenge), common.ApprovalMode
		if step.Action != nil {
			use, _ := s.JudgeOf(step)
			sub.Actions = []rules.Action{{Drivers: []string{use}, Stated: []json.RawMessage{step.Action}}}
		}
	}
	if s.Rules.ReadsDigest() {
		sub.Facts.Protocol.Digest, _ = at.Chain.ContentDigest() // a text without one is refused elsewhere
	}
	return s.Rules.ForText(sub)
}

// ProtocolFacts are what conditions and rules see of a protocol in the space with this id,
// without its digest.
func ProtocolFacts(chain protocol.Chain, space string) decision.ProtocolFacts {
	f := decision.ProtocolFacts{Title: chain.Title, Slug: chain.Slug, Tags: chain.Tags}
	if len(chain.Steps) > 0 && chain.Steps[0].UUID != "" {
		f.URI = protocol.URI(chain.Steps[0].UUID)
	}
	if space != "" {
		f.Space = protocol.SpaceName(space)
	}
	return f
}

// Worth says what the steps of the protocol will be worth at least (run.Worth), as far as
// that is known before a run.
func (s Setup) Worth(at Place) string {
	all := make([]run.Voucher, len(at.Chain.Steps))
	for i, step := range at.Chain.Steps {
		switch demand := s.demandAt(at, i); {
		case step.Challenge == nil:
		case demand.Evidence == nil && s.takesOwnAnswer(at, i):
			all[i].Provenance = driver.LinkHolder
		case demand.Evidence == nil:
			all[i].Provenance = driver.AgentReported
		default:
			all[i].Provenance = run.Weakest(demand.Evidence)
		}
	}
	return run.Worth(len(all), all)
}

// takesOwnAnswer reports whether the step's evidence is a person's own answer, given in one of
// the ways of approving, because the step or a rule demands an approval of a type that asks a
// person.
func (s Setup) takesOwnAnswer(at Place, i int) bool {
	use, _ := s.JudgeOf(at.Chain.Steps[i])
	judge, _, _ := s.Drivers.Describe(use)
	common, err := protocol.CommonOf(at.Chain.Steps[i].Challenge)
	if err != nil || judge.Approval != driver.ApprovalUser {
		return false
	}
	a := ApprovalOf(ApprovalSources{Server: s.Ways(), Rules: s.RulesAt(at, i), Step: common, Type: judge.Approval, Realm: s.Realm})
	return a.Stated && a.Mode == driver.ApprovalUser && !slices.Contains(a.How, driver.ByAgent)
}

// Contradiction says why nothing can meet what is demanded of the step, and what to do;
// empty: something can.
func Contradiction(step protocol.Step, d rules.Demand) string {
	by := "the operator's rules (" + strings.Join(d.By, "; ") + ")"
	const ask = "ask the operator to change `rules` in kairos.yaml"
	why := d.Impossible()
	common, err := protocol.CommonOf(step.Challenge)
	own := rules.OfChallenge(common, "")
	switch {
	case why != "" && len(d.By) > 0 && err == nil && !own.Zero():
		return fmt.Sprintf("%s, because the step demands %s and %s leave nothing of it: change the step, or %s", why, own.Words(), by, ask)
	case why != "" && len(d.By) > 0:
		return fmt.Sprintf("%s, because %s contradict each other: %s", why, by, ask)
	case why != "":
		return why + ": change the step"
	case step.Challenge == nil && !d.Zero() && len(d.By) > 0:
		return fmt.Sprintf("%s demand what only a challenge can show, and the step has none: give it one, or %s", by, ask)
	}
	return ""
}

// Contradicted refuses a step for which nothing can meet what the rules demand. It returns nil
// if something can.
func (s Setup) Contradicted(at Place, i int) *protocol.Diagnostic {
	step := at.Chain.Steps[i]
	if why := Contradiction(step, s.demandAt(at, i)); why != "" {
		return step.Problem("", "this step can never pass: "+why)
	}
	return nil
}

// Unvouched warns of a step whose evidence nobody could supply, because no route
// of the tree leads to a driver whose word counts. It returns nil if one does.
func (s Setup) Unvouched(at Place, i int, use string) *protocol.Diagnostic {
	step := at.Chain.Steps[i]
	demand := s.demandAt(at, i)
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || demand.Evidence == nil || demand.Impossible() != "" {
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
		d = step.Problem("", fmt.Sprintf("no configured route can supply evidence for type %q that meets the operator's rules (%s): every run will stop here",
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

func (s Setup) supplies(via string, demand rules.Demand) bool {
	desc, _, _ := s.Drivers.Describe(via)
	return slices.ContainsFunc(demand.Evidence, func(p driver.Provenance) bool {
		return Supplies(desc, p) && s.couldCount(via, p, demand)
	})
}

// couldCount reports whether an answer of the driver with the provenance would count,
// with the limits that the operator set.
func (s Setup) couldCount(via string, p driver.Provenance, demand rules.Demand) bool {
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
