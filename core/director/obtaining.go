package director

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// answerSimilarity answers how close two texts are, without a callback from
// the driver that wants to know.
func answerSimilarity(ctx context.Context, t *turn, in driver.Input) error {
	value := driver.SimilarityValue{Method: library.MethodLexical}
	if in.Similarity != nil {
		value = t.e.parts.Library.Similarity(access.InSpace(ctx, t.Run.Space), *in.Similarity)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: b, Provenance: driver.ServerObserved, Via: runs.CoreDriver,
	}})
}

// obtain takes the next route to an input. It looks up what the rules need to know of it.
func obtain(ctx context.Context, t *turn, in driver.Input) (plan.Action, error) {
	k, kind := t.Task, input.Of(in.Kind)
	switch {
	case kind.Internal:
		return nil, answerSimilarity(ctx, t, in)
	case kind.OfRun:
		return plan.ForRun(t.State, in, decideRoute(t, input.RunTask(*t.Chain), in).Route), nil
	}
	beginRoute(t, in.ID, t.change.Now())
	t.Due = in.Kind
	if plan.IsClaim(t.State, k, in) {
		return plan.Claimed(t.State, k), nil
	}
	if kind.Approves {
		if err := loadDecline(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := noteReport(ctx, t, k, in); err != nil {
		return nil, err
	}
	if kind.Approves && t.Solution.Supplied() { // a driver was asked, which takes time
		if err := loadDecline(ctx, t); err != nil {
			return nil, err
		}
	}
	d := decideRoute(t, k, in)
	if d.Route == nil {
		return plan.NoRoute(t.State, k, in), nil
	}
	t.Trying = d.Route.Via
	return plan.Through(t.State, k, in, *d.Route), nil
}

func decideRoute(t *turn, k *input.Task, in driver.Input) decision.Decision {
	facts := plan.Facts(t.State, k, in.ID)
	d := t.Tree.Decide(in.Kind, facts)
	t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// renew is done with the submission, whose nonce can then not be used for what the step
// needs next.
func renew(t *turn) error {
	t.taken()
	t.Solution, t.Target = nil, 0
	return t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID)})
}
