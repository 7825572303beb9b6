package director

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// granting keeps drivers that act on what a protocol says to what people allowed.
type granting struct {
	t      *turn
	loaded bool // what is allowed for the run's protocol
}

// load looks up what is allowed, where a route of the step leads to a driver that
// needs a grant.
func (gr *granting) load(ctx context.Context, k input.Task) error {
	concerns := gr.t.e.store.Grants != nil && plan.NeedsGrants(gr.t.State, k)
	if gr.t.Digest == "" && (concerns || gr.t.e.Tree.ReadsDigest()) {
		if err := gr.identify(); err != nil {
			return err
		}
	}
	if !concerns || gr.loaded || gr.t.change.Absent().Grants {
		return nil
	}
	all, err := gr.t.e.Covered(ctx, gr.t.Chain.Space, gr.t.Digest)
	if err != nil {
		return err
	}
	gr.t.Grants, gr.loaded = all, true
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
	gr.t.Digest = digest
	return nil
}

// prepare makes sure that the driver of the route may act, and says what it would
// do before it does it. It reports whether something was done, after which what is
// due is looked at anew: an approval of the plan, most likely.
func (gr *granting) prepare(ctx context.Context, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, bool, error) {
	if !desc.Has(driver.FeatureGrant) || !input.Of(in.Kind).Evidence {
		return Round{}, false, nil
	}
	if _, ok := plan.Covering(gr.t.State, r.Via, driver.EffectReads); !ok {
		return Round{}, true, gr.t.obtaining.passOver(ctx, in.ID, r, plan.NotAllowed(gr.t.State))
	}
	switch {
	case !plan.MayAsk(gr.t.State, k, in, desc):
		return Round{}, false, nil
	case plan.PlanOf(gr.t.State, r.Via) == nil:
		return gr.preview(ctx, k, in, r)
	case gr.t.Solution.Supplied():
		return gr.claimed(ctx, k)
	}
	return Round{}, false, nil
}

func (gr *granting) preview(ctx context.Context, k input.Task, in driver.Input, r decision.Route) (Round, bool, error) {
	drv, _ := gr.t.e.Drivers.Capability(r.Via, r.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, "it has no Preview, which the feature "+driver.FeatureGrant+" demands", 0)
	}
	req := driver.PreviewRequest{Input: in, Step: k.Where, Client: gr.t.Caller.Client}
	res, err := previewer.Preview(ctx, req)
	if s := gr.t.Solution; err == nil && res.Propose != nil && s.Supplied() {
		req.Proposal = plan.OrRaw(s.Params, s.Evidence)
		res, err = previewer.Preview(ctx, req)
	}
	gr.t.tick()
	switch {
	case err != nil:
		return Round{}, true, gr.t.obtaining.closeRoute(ctx, in.ID, r, decision.Errored, err.Error(), 0)
	case res.Plan != nil && req.Proposal == nil && gr.t.Solution.Supplied():
		return gr.claimed(ctx, k)
	case res.Plan != nil:
		return Round{}, true, gr.plan(ctx, k, in, r, *res.Plan, req.Proposal)
	case res.Propose != nil:
		round, err := gr.propose(ctx, k, in, *res.Propose)
		return round, true, err
	case res.Invalid != nil:
		gr.t.Omission = "the proposal does not fit, and nothing was done or counted: " + input.Describe(res.Invalid.Diagnostics)
		gr.t.Solution = nil
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
	if gr.t.Run.Step.Index == gr.t.Target {
		return gr.t.replies.leftOut(ctx, k, asked, shown, "A proposal is missing.")
	}
	return gr.t.replies.present(ctx, k, asked, shown)
}

// claimed records a submission that is not needed: the server does the step itself.
func (gr *granting) claimed(ctx context.Context, k input.Task) (Round, bool, error) {
	if !plan.TakesReport(gr.t.State, k) {
		round, err := gr.t.vouching.refuse(ctx, k)
		return round, true, err
	}
	err := gr.t.vouching.record()
	gr.t.Solution = nil
	gr.t.Note = plain.Sentences(gr.t.Note, "What was submitted is recorded as a claim and was not used: KAIROS does this step itself.")
	return Round{}, true, err
}

// plan records what the driver would do.
func (gr *granting) plan(ctx context.Context, k input.Task, in driver.Input, r decision.Route, p driver.Plan, proposed json.RawMessage) error {
	grant, ok := plan.Covering(gr.t.State, r.Via, p.Effect)
	if !ok {
		return gr.t.obtaining.passOver(ctx, in.ID, r, "it would change something, and it is only allowed to look")
	}
	planned := run.Plan{Driver: r.Via, Grant: grant.ID, By: grant.By, Text: p.Text, Data: p.Data, Effect: p.Effect, Proposed: proposed, Action: p.Action}
	digest, err := input.PlannedDigest(gr.t.Run.Step.Inputs, plan.PhraseOf(gr.t.State, k), planned)
	if err != nil {
		return err
	}
	gr.t.Solution = nil
	return gr.t.apply(run.Event{Kind: run.Planned, Input: in.ID, Via: r.Via, Plan: &planned, Digest: digest})
}
