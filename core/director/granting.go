package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// loadGrants looks up what is allowed, where a route of the step leads to a driver that
// needs a grant.
func loadGrants(ctx context.Context, t *turn, k *input.Task) error {
	concerns := t.e.parts.Grants.Kept() && plan.NeedsGrants(t.State, k)
	if t.Digest == "" && (concerns || t.Tree.ReadsDigest()) {
		if err := identify(t); err != nil {
			return err
		}
	}
	if !concerns || t.grantsLoaded || t.change.Absent().Grants {
		return nil
	}
	all, err := t.e.parts.Grants.Covered(ctx, t.Chain.Space, t.Digest)
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

// previewPlan asks the driver what it would do, before it does it.
func previewPlan(ctx context.Context, t *turn, a plan.Preview) (plan.Action, error) {
	drv, _ := t.setup.Drivers.Capability(a.Route.Via, a.Route.CallTimeout)
	previewer, ok := drv.(driver.Previewer)
	if !ok {
		return plan.Close(t.State, a.Input.ID, a.Route, decision.Errored, "it has no Preview, which the feature "+driver.FeatureGrant+" demands", 0), nil
	}
	req := driver.PreviewRequest{Input: a.Input, Step: a.Task.Where, Client: t.Caller.Client}
	res, err := previewer.Preview(ctx, req)
	if s := t.Solution; err == nil && res.Propose != nil && s.Supplied() {
		req.Proposal = s.Work()
		res, err = previewer.Preview(ctx, req)
	}
	t.tick()
	return plan.Previewed(t.State, a, req.Proposal, res, err), nil
}
