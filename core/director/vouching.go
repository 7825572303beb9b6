package director

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// vouching holds the open step to who must vouch for its evidence.
type vouching struct{ t *turn }

// refuse records the submission as a claim, which nobody judges and which is not
// counted. The same claim again is not recorded again.
func (vo *vouching) refuse(ctx context.Context, k input.Task) (Round, error) {
	if err := vo.record(); err != nil {
		return Round{}, err
	}
	why := plain.Sentences(plan.OnlyCounts(vo.t.State)+". What was submitted is recorded as a claim, and is neither judged nor counted.", vo.allowable(ctx))
	return vo.t.replies.halt(ctx, fault.New(fault.EvidenceNotAccepted, "%s", why).
		WithNext(`call kairos_next with %s without evidence: solution {"type":%q,"nonce":%q}`, protocol.URI(k.Step.UUID), k.Common.Type, vo.t.Run.Step.Nonce))
}

// record keeps the submission as a claim.
func (vo *vouching) record() error {
	s := vo.t.Solution
	if vo.t.Run.Step.Claim == s.Payload {
		return nil
	}
	ev := run.Event{Kind: run.Claimed, Input: input.EvidenceKind.Name, Digest: s.Payload}
	if said := plan.OrRaw(s.Params, s.Evidence); len(said) <= plan.MaxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: said, Provenance: driver.AgentReported}
	}
	return vo.t.apply(ev)
}

// nobody is the error where no route is left that could supply what counts.
func (vo *vouching) nobody(ctx context.Context, in driver.Input) *fault.Error {
	code, whom := fault.ApprovalUnavailable, "that is not possible here"
	switch counting := plan.Demanded(vo.t.State).Provenances; {
	case plan.Observes(vo.t.State):
		code, whom = fault.ObservationUnavailable, "it cannot do so here"
	case len(counting) == 2:
		whom = "neither is possible here"
	case !slices.Contains(counting, driver.ClientAttested) && !slices.Contains(counting, driver.LinkHolder):
		code = fault.DriverUnavailable
	}
	return fault.New(code, "%s", plain.Sentences(fmt.Sprintf("%s, and %s%s.", plan.OnlyCounts(vo.t.State), whom, plan.Troubles(vo.t.State, in.ID)), vo.allowable(ctx)))
}

// allowable tells a person what would let a driver do the open step; empty: somebody
// has allowed one, or no driver does such steps.
func (vo *vouching) allowable(ctx context.Context) string {
	if len(plan.Granted(vo.t.State)) > 0 {
		return ""
	}
	a, found := vo.t.e.act(ctx, vo.t.Task, vo.t.Caller.Client)
	switch {
	case !found:
		return ""
	case a.Cannot != "":
		return fmt.Sprintf("Driver %s does such steps, and could not do this one now: %s.", a.Driver, strings.TrimSuffix(plain.Line(a.Cannot), "."))
	}
	return fmt.Sprintf("A person can allow KAIROS to do it: `kairos allow %s`.", vo.t.Run.ID)
}
