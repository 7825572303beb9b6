package director

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// granting keeps drivers that act on what a protocol says to what people allowed.
type granting struct {
	t *turn
	// digest and all are of the run's protocol, once a step or the policy needed them.
	digest string
	all    []grants.Grant
	loaded bool // all is
}

// load looks up what is allowed, where a route of the step leads to a driver that
// needs a grant.
func (gr *granting) load(ctx context.Context, k input.Task) error {
	concerns := gr.t.e.store.Grants != nil && gr.concerns(k)
	if gr.digest == "" && (concerns || gr.t.e.Tree.ReadsDigest()) {
		if err := gr.identify(); err != nil {
			return err
		}
	}
	if !concerns || gr.loaded || gr.t.Absent().Grants {
		return nil
	}
	all, err := gr.t.e.Covered(ctx, gr.t.Chain.Space, gr.digest)
	if err != nil {
		return err
	}
	gr.all, gr.loaded = all, true
	return nil
}

// identify works out the digest of what the run's protocol says, once for all runs
// that are pinned to it.
func (gr *granting) identify() (err error) {
	known, pin := gr.t.e.contents, gr.t.Run.Pin
	digest, ok := known.Get(pin)
	if !ok {
		if digest, err = gr.t.Chain.ContentDigest(); err != nil {
			return err
		}
		known.Put(pin, digest, len(pin)+len(digest))
	}
	gr.digest = digest
	return nil
}

func (gr *granting) concerns(k input.Task) bool {
	for _, via := range gr.t.e.Tree.EvidenceVia(decision.ChallengeFacts{Type: k.Common.Type, Name: k.Step.Name}) {
		if desc, _, _ := gr.t.e.Drivers.Describe(via); desc.Has(driver.FeatureGrant) {
			return true
		}
	}
	return false
}

// here lists the grants for the open step of this run.
func (gr *granting) here() (here []grants.Grant) {
	for _, g := range gr.all {
		if g.Covers(gr.t.Run.ID, gr.t.Run.Step.Index, g.Driver, driver.EffectReads) {
			here = append(here, g)
		}
	}
	return here
}

// covering is the grant under which the driver may do something of that effect.
func (gr *granting) covering(via string, e driver.Effect) (grants.Grant, bool) {
	for _, g := range gr.here() {
		if g.Covers(gr.t.Run.ID, gr.t.Run.Step.Index, via, e) {
			return g, true
		}
	}
	return grants.Grant{}, false
}

// planOf is the plan that the driver is called with; nil: none.
func (gr *granting) planOf(via string) json.RawMessage {
	if p := gr.t.Run.Step.Plan; p != nil && p.Driver == via {
		return p.Data
	}
	return nil
}

// acts reports whether a call may change something, so that it is stored before it
// is made. A driver of effect effects does not if its plan only reads, or if it is
// only asked what the step needs: there is no answer yet that it could act on.
func (gr *granting) acts(c run.Call, desc driver.Descriptor) bool {
	p := gr.t.Run.Step.Plan
	switch {
	case c.Input == "" && len(gr.t.Run.Step.Answers) == 0:
		return false
	case c.Input != "" && p != nil && p.Driver == c.Driver:
		return p.Effect != driver.EffectReads
	}
	return desc.Effect == driver.EffectEffects
}

// prepare makes sure that the driver of the route may act, and says what it would
// do before it does it. It reports whether something was done, after which what is
// due is looked at anew: an approval of the plan, most likely.
func (gr *granting) prepare(ctx context.Context, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, bool, error) {
	if !desc.Has(driver.FeatureGrant) || !input.Of(in.Kind).Evidence {
		return Round{}, false, nil
	}
	if _, ok := gr.covering(r.Via, driver.EffectReads); !ok {
		return Round{}, true, gr.t.obtaining.passOver(ctx, in.ID, r, gr.notAllowed())
	}
	switch {
	case !gr.t.questions.mayAsk(k, in, desc):
		return Round{}, false, nil
	case gr.planOf(r.Via) == nil:
		return gr.preview(ctx, k, in, r)
	case gr.t.solution.supplied():
		return gr.claimed(ctx, k)
	}
	return Round{}, false, nil
}

// plansFirst reports whether the input comes from a driver that has still to say
// what it would do, or is passed over without a grant: what it plans is what a
// person approves, so they are asked once that is known.
func (gr *granting) plansFirst(k input.Task, in driver.Input) bool {
	if !input.Of(in.Kind).Evidence {
		return false
	}
	d := gr.t.e.Tree.Decide(in.Kind, gr.t.facts(k, in.ID))
	if d.Route == nil || gr.planOf(d.Route.Via) != nil {
		return false
	}
	desc, _, _ := gr.t.e.Drivers.Describe(d.Route.Via)
	return desc.Has(driver.FeatureGrant) && gr.t.questions.mayAsk(k, in, desc)
}

// notAllowed tells an operator what allows it.
func (gr *granting) notAllowed() string {
	return fmt.Sprintf("nobody allowed it to act for this step; a person can: `kairos allow %s`", gr.t.Run.ID)
}

// permission is that of the driver which did the step itself to obtain the evidence;
// nil: none did.
func (gr *granting) permission(evidence driver.Answer) (permission *run.Permission, err error) {
	if p := gr.t.Run.Step.Plan; p != nil && p.Driver == evidence.Via {
		granted, err := p.Permission()
		return &granted, err
	}
	return permission, nil
}

func (gr *granting) preview(ctx context.Context, k input.Task, in driver.Input, r decision.Route) (Round, bool, error) {
	drv, _ := gr.t.e.Drivers.Capability(r.Via, r.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "it has no Preview, which the feature "+driver.FeatureGrant+" demands", 0)
	}
	req := driver.PreviewRequest{Input: in, Step: k.Where, Client: gr.t.caller.Client}
	res, err := previewer.Preview(ctx, req)
	if s := gr.t.solution; err == nil && res.Propose != nil && s.supplied() {
		req.Proposal = orRaw(s.params, s.Evidence)
		res, err = previewer.Preview(ctx, req)
	}
	switch {
	case err != nil:
		return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, err.Error(), 0)
	case res.Plan != nil && req.Proposal == nil && gr.t.solution.supplied():
		return gr.claimed(ctx, k)
	case res.Plan != nil:
		return Round{}, true, gr.plan(ctx, k, in, r, *res.Plan, req.Proposal)
	case res.Propose != nil:
		round, err := gr.propose(ctx, k, in, *res.Propose)
		return round, true, err
	case res.Invalid != nil:
		gr.t.replies.omission = "the proposal does not fit, and nothing was done or counted: " + input.Describe(res.Invalid.Diagnostics)
		gr.t.solution = nil
		return Round{}, true, nil
	case res.Unavailable != nil:
		return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "Preview gave no outcome", 0)
}

// propose asks the agent for what the step leaves open. Nothing is counted.
func (gr *granting) propose(ctx context.Context, k input.Task, in driver.Input, p driver.Propose) (Round, error) {
	asked := in
	asked.Schema = p.Schema
	shown := driver.AgentChallenge{
		Type: k.Common.Type, Display: in.Display,
		Description: plain.Sentences(p.Description, "Propose only: KAIROS does it itself, once what you propose is approved. Do not do it."),
	}
	if gr.t.Run.Step.Index == gr.t.target {
		return gr.t.replies.leftOut(ctx, k, asked, shown, "A proposal is missing.")
	}
	return gr.t.replies.present(ctx, k, asked, shown)
}

// claimed records a submission that is not needed: the server does the step itself.
func (gr *granting) claimed(ctx context.Context, k input.Task) (Round, bool, error) {
	if !gr.t.vouching.takesReport(k) {
		round, err := gr.t.vouching.refuse(ctx, k)
		return round, true, err
	}
	err := gr.t.vouching.record()
	gr.t.solution = nil
	gr.t.replies.note = plain.Sentences(gr.t.replies.note, "What was submitted is recorded as a claim and was not used: KAIROS does this step itself.")
	return Round{}, true, err
}

// plan records what the driver would do.
func (gr *granting) plan(ctx context.Context, k input.Task, in driver.Input, r decision.Route, p driver.Plan, proposed json.RawMessage) error {
	grant, ok := gr.covering(r.Via, p.Effect)
	if !ok {
		return gr.t.obtaining.passOver(ctx, in.ID, r, "it would change something, and it is only allowed to look")
	}
	planned := run.Plan{Driver: r.Via, Grant: grant.ID, By: grant.By, Text: p.Text, Data: p.Data, Effect: p.Effect, Proposed: proposed, Action: p.Action}
	digest, err := input.PlannedDigest(gr.t.Run.Step.Inputs, gr.t.approvals.phraseOf(k), planned)
	if err != nil {
		return err
	}
	gr.t.solution = nil
	return gr.t.apply(run.Event{Kind: run.Planned, Input: in.ID, Via: r.Via, Plan: &planned, Digest: digest})
}
