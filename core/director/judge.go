package director

import (
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// withhold keeps a verdict until the judge has spoken: the challenge driver is not
// asked a second time, because its call may have changed the world.
func withhold(t *turn, k input.Task, a driver.Accepted, evidence driver.Answer) error {
	verdict := run.WithheldVerdict{Proof: a.Proof, Output: a.Output, Provenance: evidence.Provenance, Via: evidence.Via, Driver: plan.Ref(t.State, k.Use)}
	if err := t.apply(run.Event{Kind: run.Withheld, Withheld: &verdict, Inputs: []driver.Input{input.Judgement(k, a.Output, t.Run.Step.Sensitive)}}); err != nil {
		return err
	}
	// What was submitted is taken: another submission under the same nonce is none for the judge.
	return setAside(t)
}
