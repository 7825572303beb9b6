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

// loadGrants looks up what is allowed, where a route of the step leads to a driver that
// needs a grant.
func loadGrants(ctx context.Context, t *turn, k input.Task) error {
	concerns := t.e.store.Grants != nil && plan.NeedsGrants(t.State, k)
	if t.Digest == "" && (concerns || t.e.Tree.ReadsDigest()) {
		if err := identify(t); err != nil {
			return err
		}
	}
	if !concerns || t.grantsLoaded || t.change.Absent().Grants {
		return nil
	}
	all, err := t.e.Covered(ctx, t.Chain.Space, t.Digest)
	if err != nil {
		return err
	}
	t.Grants, t.grantsLoaded = all, true
	return nil
}

// identify works out the digest of what the run's protocol says, once for all runs
// that are pinned to it.
func identify(t *turn) (err error) {
	known, pin := t.e.contents, t.Run.Pin
	digest, ok := known.Get(pin)
	if !ok {
		if digest, err = t.Chain.ContentDigest(); err != nil {
			return err
		}
		known.Put(pin, digest, len(pin)+len(digest))
	}
	t.Digest = digest
	return nil
}

// prepare makes sure that the driver of the route may act, and says what it would
// do before it does it. It reports whether something was done, after which what is
// due is looked at anew: an approval of the plan, most likely.
func prepare(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route, desc driver.Descriptor) (Round, bool, error) {
	if !desc.Has(driver.FeatureGrant) || !input.Of(in.Kind).Evidence {
		return Round{}, false, nil
	}
	if _, ok := plan.Covering(t.State, r.Via, driver.EffectReads); !ok {
		return Round{}, true, passOver(ctx, t, in.ID, r, plan.NotAllowed(t.State))
	}
	switch {
	case !plan.MayAsk(t.State, k, in, desc):
		return Round{}, false, nil
	case plan.PlanOf(t.State, r.Via) == nil:
		return previewPlan(ctx, t, k, in, r)
	case t.Solution.Supplied():
		return claimed(ctx, t, k)
	}
	return Round{}, false, nil
}

func previewPlan(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route) (Round, bool, error) {
	drv, _ := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return Round{}, true, closeRoute(ctx, t, in.ID, r, decision.Errored, "it has no Preview, which the feature "+driver.FeatureGrant+" demands", 0)
	}
	req := driver.PreviewRequest{Input: in, Step: k.Where, Client: t.Caller.Client}
	res, err := previewer.Preview(ctx, req)
	if s := t.Solution; err == nil && res.Propose != nil && s.Supplied() {
		req.Proposal = plan.OrRaw(s.Params, s.Evidence)
		res, err = previewer.Preview(ctx, req)
	}
	t.tick()
	switch {
	case err != nil:
		return Round{}, true, closeRoute(ctx, t, in.ID, r, decision.Errored, err.Error(), 0)
	case res.Plan != nil && req.Proposal == nil && t.Solution.Supplied():
		return claimed(ctx, t, k)
	case res.Plan != nil:
		return Round{}, true, recordPlan(ctx, t, k, in, r, *res.Plan, req.Proposal)
	case res.Propose != nil:
		round, err := propose(ctx, t, k, in, *res.Propose)
		return round, true, err
	case res.Invalid != nil:
		t.Omission = "the proposal does not fit, and nothing was done or counted: " + input.Describe(res.Invalid.Diagnostics)
		t.Solution = nil
		return Round{}, true, nil
	case res.Unavailable != nil:
		return Round{}, true, closeRoute(ctx, t, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0)
	}
	return Round{}, true, closeRoute(ctx, t, in.ID, r, decision.Errored, "Preview gave no outcome", 0)
}

// propose asks the agent for what the step leaves open. Nothing is counted.
func propose(ctx context.Context, t *turn, k input.Task, in driver.Input, p driver.Propose) (Round, error) {
	asked := in
	asked.Schema = p.Schema
	shown := driver.AgentChallenge{
		Type: k.Common.Type, Display: in.Display,
		Description: plain.Sentences(p.Description, "Propose only: KAIROS does it itself, once what you propose is approved. Do not do it."),
	}
	if t.Run.Step.Index == t.Target {
		return leftOut(ctx, t, k, asked, shown, "A proposal is missing.")
	}
	return presentStep(ctx, t, k, asked, shown)
}

// claimed records a submission that is not needed: the server does the step itself.
func claimed(ctx context.Context, t *turn, k input.Task) (Round, bool, error) {
	if !plan.TakesReport(t.State, k) {
		round, err := refuseClaim(ctx, t, k)
		return round, true, err
	}
	err := recordClaim(t)
	t.Solution = nil
	t.Note = plain.Sentences(t.Note, "What was submitted is recorded as a claim and was not used: KAIROS does this step itself.")
	return Round{}, true, err
}

// recordPlan records what the driver would do.
func recordPlan(ctx context.Context, t *turn, k input.Task, in driver.Input, r decision.Route, p driver.Plan, proposed json.RawMessage) error {
	grant, ok := plan.Covering(t.State, r.Via, p.Effect)
	if !ok {
		return passOver(ctx, t, in.ID, r, "it would change something, and it is only allowed to look")
	}
	planned := run.Plan{Driver: r.Via, Grant: grant.ID, By: grant.By, Text: p.Text, Data: p.Data, Effect: p.Effect, Proposed: proposed, Action: p.Action}
	digest, err := input.PlannedDigest(t.Run.Step.Inputs, plan.PhraseOf(t.State, k), planned)
	if err != nil {
		return err
	}
	t.Solution = nil
	return t.apply(run.Event{Kind: run.Planned, Input: in.ID, Via: r.Via, Plan: &planned, Digest: digest})
}
