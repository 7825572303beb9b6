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

// refuseClaim records the submission as a claim, which nobody judges and which is not
// counted. The same claim again is not recorded again.
func refuseClaim(ctx context.Context, t *turn, k input.Task) (Round, error) {
	if err := recordClaim(t); err != nil {
		return Round{}, err
	}
	why := plain.Sentences(plan.OnlyCounts(t.State)+". What was submitted is recorded as a claim, and is neither judged nor counted.", allowable(ctx, t))
	return halt(ctx, t, fault.New(fault.EvidenceNotAccepted, "%s", why).
		WithNext(`call kairos_next with %s without evidence: solution {"type":%q,"nonce":%q}`, protocol.URI(k.Step.UUID), k.Common.Type, t.Run.Step.Nonce))
}

// recordClaim keeps the submission as a claim.
func recordClaim(t *turn) error {
	s := t.Solution
	if t.Run.Step.Claim == s.Payload {
		return nil
	}
	ev := run.Event{Kind: run.Claimed, Input: input.EvidenceKind.Name, Digest: s.Payload}
	if said := plan.OrRaw(s.Params, s.Evidence); len(said) <= plan.MaxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: said, Provenance: driver.AgentReported}
	}
	return t.apply(ev)
}

// nobody is the error where no route is left that could supply what counts.
func nobody(ctx context.Context, t *turn, in driver.Input) *fault.Error {
	code, whom := fault.ApprovalUnavailable, "that is not possible here"
	switch counting := plan.Demanded(t.State).Provenances; {
	case plan.Observes(t.State):
		code, whom = fault.ObservationUnavailable, "it cannot do so here"
	case len(counting) == 2:
		whom = "neither is possible here"
	case !slices.Contains(counting, driver.ClientAttested) && !slices.Contains(counting, driver.LinkHolder):
		code = fault.DriverUnavailable
	}
	return fault.New(code, "%s", plain.Sentences(fmt.Sprintf("%s, and %s%s.", plan.OnlyCounts(t.State), whom, plan.Troubles(t.State, in.ID)), allowable(ctx, t)))
}

// allowable tells a person what would let a driver do the open step; empty: somebody
// has allowed one, or no driver does such steps.
func allowable(ctx context.Context, t *turn) string {
	if len(plan.Granted(t.State)) > 0 {
		return ""
	}
	a, found := t.e.act(ctx, t.Task, t.Caller.Client)
	switch {
	case !found:
		return ""
	case a.Cannot != "":
		return fmt.Sprintf("Driver %s does such steps, and could not do this one now: %s.", a.Driver, strings.TrimSuffix(plain.Line(a.Cannot), "."))
	}
	return fmt.Sprintf("A person can allow KAIROS to do it: `kairos allow %s`.", t.Run.ID)
}
