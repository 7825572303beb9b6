package director

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// loadGrants looks up what is allowed, where a route of the step leads to a driver that
// needs a grant.
func loadGrants(ctx context.Context, t *turn, k *input.Task) error {
	concerns := t.e.store.Grants != nil && plan.NeedsGrants(t.State, k)
	if t.Digest == "" && (concerns || t.e.Tree.ReadsDigest()) {
		if err := identify(t); err != nil {
			return err
		}
	}
	if !concerns || t.grantsLoaded || t.change.Absent().Grants {
		return nil
	}
	all, err := t.e.grants.Covered(ctx, t.Chain.Space, t.Digest)
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

// previewPlan asks the driver what it would do, before it does it. What is due is looked
// at anew then: an approval of the plan, most likely.
func previewPlan(ctx context.Context, t *turn, k *input.Task, in driver.Input, r decision.Route) (plan.Action, error) {
	drv, _ := t.e.Drivers.Capability(r.Via, r.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return plan.Close(t.State, in.ID, r, decision.Errored, "it has no Preview, which the feature "+driver.FeatureGrant+" demands", 0), nil
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
		return plan.Close(t.State, in.ID, r, decision.Errored, err.Error(), 0), nil
	case res.Plan != nil && req.Proposal == nil && t.Solution.Supplied():
		return plan.NotNeeded(t.State, k), nil
	case res.Plan != nil:
		return recordPlan(t, k, in, r, *res.Plan, req.Proposal)
	case res.Propose != nil:
		return plan.Reply{StepReply: propose(t, k, in, *res.Propose)}, nil
	case res.Invalid != nil:
		t.Omission = "the proposal does not fit, and nothing was done or counted: " + input.Describe(res.Invalid.Diagnostics)
		t.Solution = nil
		return nil, nil
	case res.Unavailable != nil:
		return plan.Close(t.State, in.ID, r, decision.Unavailable, res.Unavailable.Reason, 0), nil
	}
	return plan.Close(t.State, in.ID, r, decision.Errored, "Preview gave no outcome", 0), nil
}

// propose asks the agent for what the step leaves open. Nothing is counted.
func propose(t *turn, k *input.Task, in driver.Input, p driver.Propose) api.StepReply {
	asked := in
	asked.Schema = p.Schema
	shown := driver.AgentChallenge{
		Type: k.Common.Type, Display: in.Display,
		Description: plain.Sentences(p.Description, "Propose only: KAIROS does it itself, once what you propose is approved. Do not do it."),
	}
	if t.Run.Step.Index == t.Target {
		return plan.LeftOutReply(t.State, k, asked, shown, "A proposal is missing.")
	}
	return plan.StepReply(t.State, k, asked, shown)
}

// recordPlan records what the driver would do.
func recordPlan(t *turn, k *input.Task, in driver.Input, r decision.Route, p driver.Plan, proposed json.RawMessage) (plan.Action, error) {
	grant, ok := plan.GrantFor(t.State, r.Via, p.Effect)
	if !ok {
		return plan.PassOver(t.State, in.ID, r, "it would change something, and it is only allowed to look"), nil
	}
	planned := run.Plan{Driver: r.Via, Grant: grant.ID, By: grant.By, Text: p.Text, Data: p.Data, Effect: p.Effect, Proposed: proposed, Action: p.Action}
	digest, err := input.PlannedDigest(t.Run.Step.Inputs, plan.PhraseOf(t.State, k), planned)
	if err != nil {
		return nil, err
	}
	t.Solution = nil
	return nil, t.apply(run.Event{Kind: run.Planned, Input: in.ID, Via: r.Via, Plan: &planned, Digest: digest})
}
