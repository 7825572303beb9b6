package plan

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// NeedsAcceptance reports whether a route of the step leads to a driver that acts only under an acceptance.
func NeedsAcceptance(s *State, k *input.Task) bool {
	for _, via := range s.Tree.EvidenceVia(decision.ChallengeFacts{Type: k.Common.Type, Name: k.Step.Name}) {
		if desc, _, _ := s.Drivers.Describe(via); desc.Has(driver.FeaturePreview) {
			return true
		}
	}
	return false
}

// AcceptedHere lists the acceptances for the open step of this run.
func AcceptedHere(s *State) (here []acceptances.Acceptance) {
	for _, a := range s.Acceptances {
		if a.Covers(s.Run.ID, s.Run.Step.Index, a.Driver, driver.EffectReads) {
			here = append(here, a)
		}
	}
	return here
}

// AcceptanceFor is the acceptance under which the driver may do something of that effect.
func AcceptanceFor(s *State, via string, e driver.Effect) (acceptances.Acceptance, bool) {
	for _, a := range AcceptedHere(s) {
		if a.Covers(s.Run.ID, s.Run.Step.Index, via, e) {
			return a, true
		}
	}
	return acceptances.Acceptance{}, false
}

// Stated is the plan that the driver is called with, or nil.
func Stated(s *State, via string) json.RawMessage {
	if p := s.Run.Step.Plan; p != nil && p.Driver == via {
		return p.Data
	}
	return nil
}

// MayAct reports whether a call may change something, so that it is stored before it
// is made. A driver of effect changes does not if its plan only reads, or if it is
// only asked what the step needs: there is no answer yet that it could act on.
func MayAct(s *State, c run.Call, desc driver.Descriptor) bool {
	p := s.Run.Step.Plan
	switch {
	case c.Input == "" && len(s.Run.Step.Answers) == 0:
		return false
	case c.Input != "" && p != nil && p.Driver == c.Driver:
		return p.Effect != driver.EffectReads
	}
	return desc.Effect == driver.EffectChanges
}

// plansFirst reports whether the input comes from a driver that has still to say
// what it would do, or is passed over without an acceptance: what it plans is what a
// person approves, so they are asked once that is known.
func plansFirst(s *State, k *input.Task, in driver.Input) bool {
	if !input.Of(in.Kind).Evidence {
		return false
	}
	d := s.Tree.Decide(in.Kind, Facts(s, k, in.ID))
	if d.Route == nil || Stated(s, d.Route.Via) != nil {
		return false
	}
	desc, _, _ := s.Drivers.Describe(d.Route.Via)
	return desc.Has(driver.FeaturePreview) && MayAsk(s, k, in, desc)
}

// notAccepted tells the operator what makes it act.
func notAccepted(s *State) string {
	return fmt.Sprintf("nobody accepted that it does this step; the operator can: `kairos accept --run %s`", s.Run.ID)
}

// permissionOf is that of the driver which did the step itself to obtain the evidence;
// nil: none did.
func permissionOf(s *State, evidence driver.Answer) (permission *run.Permission, err error) {
	if p := s.Run.Step.Plan; p != nil && p.Driver == evidence.Via {
		granted, err := p.Permission()
		return &granted, err
	}
	return permission, nil
}

// Previewed is what follows from what a driver says that it would do. What is due is looked
// at anew: an approval of the plan, most likely.
func Previewed(s *State, a Preview, proposal json.RawMessage, res driver.PreviewResult, err error) Action {
	k, in, r := a.Task, a.Input, a.Route
	switch {
	case err != nil:
		return Close(s, in.ID, r, decision.Errored, err.Error(), 0)
	case res.Plan != nil && proposal == nil && s.Solution.Supplied():
		return NotNeeded(s, k)
	case res.Plan != nil:
		return planned(s, a, *res.Plan, proposal)
	case res.Propose != nil:
		return Reply{propose(s, k, in, *res.Propose)}
	case res.Invalid != nil && proposal == nil:
		return Close(s, in.ID, r, decision.Errored, "it refuses a proposal that nobody made: "+input.Describe(res.Invalid.Diagnostics), 0)
	case res.Invalid != nil:
		return Omit{"the proposal does not fit, and nothing was done or counted: " + input.Describe(res.Invalid.Diagnostics)}
	case res.Unavailable != nil:
		return Close(s, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Close(s, in.ID, r, decision.Errored, "Preview gave no outcome", 0)
}

// propose asks the agent for what the step leaves open. Nothing is counted.
func propose(s *State, k *input.Task, in driver.Input, p driver.Propose) api.StepReply {
	asked := in
	asked.Schema = p.Schema
	shown := driver.AgentChallenge{
		Type: k.Common.Type, Display: in.Display,
		Description: plain.Sentences(p.Description, "Propose only: KAIROS does it itself, once what you propose is approved. Do not do it."),
	}
	if s.Run.Step.Index == s.Target {
		return LeftOutReply(s, k, asked, shown, "A proposal is missing.")
	}
	return StepReply(s, k, asked, shown)
}

// planned records what the driver would do.
func planned(s *State, a Preview, p driver.Plan, proposed json.RawMessage) Action {
	via := a.Route.Via
	accepted, ok := AcceptanceFor(s, via, p.Effect)
	if !ok {
		return PassOver(s, a.Input.ID, a.Route, "it would change something, and only looks are accepted")
	}
	plan := run.Plan{Driver: via, Acceptance: accepted.ID, By: accepted.By, Text: p.Text, Data: p.Data, Effect: p.Effect, Proposed: proposed, Action: p.Action}
	if conflict := Demanded(s, a.Task, s.Run.Step.Inputs, &plan); conflict != nil {
		return Halt{Fault: conflict}
	}
	gated := a.Task.Demand.Approval != nil // a rule may know only now what is done
	digest, err := input.PlannedDigest(s.Run.Step.Inputs, a.Task.Approval.Phrase, plan)
	if err != nil {
		return Halt{Fault: Unavailable("the plan of driver %s cannot be digested: %v", via, err)}
	}
	return Apply{Events: []run.Event{{Kind: run.Planned, Input: a.Input.ID, Via: via, Plan: &plan, Digest: digest, Gated: gated, Demand: kept(a.Task.ByAction)}}, Used: true}
}
