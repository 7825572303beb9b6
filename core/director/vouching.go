package director

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// vouching holds the open step to who must vouch for its evidence.
type vouching struct{ t *turn }

// demanded is what the open step and the policy demand, once that is worked out.
func (vo *vouching) demanded() decision.Demand {
	if vo.t.opened != vo.t.Run.Step.Index {
		return decision.Demand{}
	}
	return vo.t.task.Demand
}

// observes reports whether only what the server observed counts.
func (vo *vouching) observes() bool {
	return slices.Equal(vo.demanded().Provenances, protocol.FromServer.Provenances())
}

// judgeLooks reports whether the challenge driver may look at the world itself: then
// its verdict may be an observation, whoever supplied what it looks at.
func (vo *vouching) judgeLooks(k input.Task) bool {
	desc, _, _ := vo.t.e.Drivers.Describe(k.Use)
	return drivers.MayClaim(desc, driver.ServerObserved) && vo.couldCount(k, k.Use, driver.ServerObserved)
}

// couldCount reports whether an answer of the driver with the provenance would count,
// with the limits that the operator set.
func (vo *vouching) couldCount(k input.Task, via string, p driver.Provenance) bool {
	return vo.t.trust.limited(via, p) == p && k.Demand.Counts(p)
}

// cannot says why evidence that comes through a driver does not count; empty: it
// may count.
func (vo *vouching) cannot(k input.Task, in driver.Input, via string) string {
	if !input.Of(in.Kind).Evidence || vo.judgeLooks(k) {
		return ""
	}
	desc, _, known := vo.t.e.Drivers.Describe(via)
	if !known || k.Demand.Provenances == nil {
		return ""
	}
	for _, p := range k.Demand.Provenances {
		if drivers.Supplies(desc, p) && vo.couldCount(k, via, p) {
			return ""
		}
	}
	return notCounted
}

// countsAsAnswer reports whether a decision with the provenance would count where the approval of the
// input is the answer to it; true where it is not.
func (vo *vouching) countsAsAnswer(k input.Task, in driver.Input, p driver.Provenance) bool {
	return !vo.t.trust.ownAnswer(k, in) || !input.YesOrNo(in) || k.Demand.Counts(p)
}

// noLinkGiven is the reason for which links are held back, and the way without one.
const noLinkGiven = "The holder of an approval link is not identified, so KAIROS gives out no link: continue the run with a client that shows forms"

// noLink says why no link to answer with is given out, and what would be accepted instead;
// empty if a link may be given out, or if the server has no approval page.
func (vo *vouching) noLink(k input.Task) string {
	if !vo.t.links.served() || vo.t.links.answerable(k) {
		return ""
	}
	return vo.only() + ". " + noLinkGiven
}

// cannotDecide says why a person's decision that comes through a driver does not count
// as their answer; empty: it may count.
func (vo *vouching) cannotDecide(k input.Task, in driver.Input, via string) string {
	desc, _, known := vo.t.e.Drivers.Describe(via)
	if !known || !input.Of(in.Kind).Approves || !desc.Has(driver.FeatureHuman) {
		return ""
	}
	for _, p := range []driver.Provenance{driver.ClientAttested, driver.LinkHolder} {
		onlyByLink := slices.Contains(desc.Needs, driver.NeedApprovalPage)
		if onlyByLink && p != driver.LinkHolder {
			continue
		}
		if vo.countsAsAnswer(k, vo.t.approvals.gatedInput(), vo.t.trust.limited(via, p)) {
			return ""
		}
	}
	return notCounted
}

// notCounted is why a route is passed over whose evidence cannot count.
const notCounted = "what it supplies does not count for this step"

// counted checks the provenance of evidence that a driver accepted: whatever the
// way it came, the step takes no weaker one.
func (vo *vouching) counted(k input.Task, evidence driver.Answer) string {
	if k.Demand.Counts(evidence.Provenance) {
		return ""
	}
	return fmt.Sprintf("%s. This evidence is %s (driver %s)", vo.only(), evidence.Provenance, evidence.Via)
}

// possible refuses a step of which no evidence counts, because the policy
// contradicts it or itself since the protocol was minted.
func (vo *vouching) possible(k input.Task) error {
	if why := drivers.Contradiction(k.Step, k.Demand); why != "" {
		return fault.New(fault.PolicyConflict, "Step %d cannot be solved: %s.", k.Where.Index, why)
	}
	return nil
}

// clauses say in words whose evidence counts.
var clauses = []struct {
	provenance driver.Provenance
	words      string
}{
	{driver.AgentReported, "the agent reports it"},
	{driver.ModelGenerated, "a model writes it"},
	{driver.LinkHolder, "somebody with the link answers it"},
	{driver.ClientAttested, "a person answers it"},
	{driver.ServerObserved, "KAIROS observes it itself"},
}

// only says whose word counts.
func (vo *vouching) only() string {
	var ways []string
	for _, c := range clauses {
		if slices.Contains(vo.demanded().Provenances, c.provenance) {
			ways = append(ways, c.words)
		}
	}
	return fmt.Sprintf("Step %q counts only if %s", vo.t.step().Name, strings.Join(ways, ", or "))
}

// isClaim reports whether the submission is evidence that cannot count. For a step
// that a driver was allowed to do it may be a proposal.
func (vo *vouching) isClaim(k input.Task, in driver.Input) bool {
	return !vo.takesReport(k) && input.Of(in.Kind).Evidence && vo.t.solution.supplied() && !vo.judgeLooks(k) && len(vo.t.granting.here()) == 0
}

// takesReport reports whether the agent's word counts.
func (vo *vouching) takesReport(k input.Task) bool {
	return k.Demand.Counts(driver.AgentReported)
}

// refuse records the submission as a claim, which nobody judges and which is not
// counted. The same claim again is not recorded again.
func (vo *vouching) refuse(ctx context.Context, k input.Task) (Round, error) {
	if err := vo.record(); err != nil {
		return Round{}, err
	}
	why := plain.Sentences(vo.only()+". What was submitted is recorded as a claim, and is neither judged nor counted.", vo.allowable(ctx))
	return vo.t.replies.halt(ctx, fault.New(fault.EvidenceNotAccepted, "%s", why).
		WithNext(`call kairos_next with %s without evidence: solution {"type":%q,"nonce":%q}`, protocol.URI(k.Step.UUID), k.Common.Type, vo.t.Run.Step.Nonce))
}

// record keeps the submission as a claim.
func (vo *vouching) record() error {
	s := vo.t.solution
	if vo.t.Run.Step.Claim == s.payload {
		return nil
	}
	ev := run.Event{Kind: run.Claimed, Input: input.EvidenceKind.Name, Digest: s.payload}
	if said := orRaw(s.params, s.Evidence); len(said) <= maxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: said, Provenance: driver.AgentReported}
	}
	return vo.t.apply(ev)
}

// decidable refuses a person's report of what a driver did, which is a report, where
// the step takes none.
func (vo *vouching) decidable(k input.Task) error {
	if vo.takesReport(k) {
		return nil
	}
	return fault.New(fault.InvalidArgument, "%s, so what you know of it cannot be its evidence.", vo.only()).
		WithHint("if it did not happen, say so, and it is tried again; if it did, end the run with `kairos runs abandon` and begin another one")
}

// nobody is the error where no route is left that could supply what counts.
func (vo *vouching) nobody(ctx context.Context, in driver.Input) *fault.Error {
	code, whom := fault.ApprovalUnavailable, "that is not possible here"
	switch counting := vo.demanded().Provenances; {
	case vo.observes():
		code, whom = fault.ObservationUnavailable, "it cannot do so here"
	case len(counting) == 2:
		whom = "neither is possible here"
	case !slices.Contains(counting, driver.ClientAttested) && !slices.Contains(counting, driver.LinkHolder):
		code = fault.DriverUnavailable
	}
	return fault.New(code, "%s", plain.Sentences(fmt.Sprintf("%s, and %s%s.", vo.only(), whom, vo.t.tries.troubles(in.ID)), vo.allowable(ctx)))
}

// allowable tells a person what would let a driver do the open step; empty: somebody
// has allowed one, or no driver does such steps.
func (vo *vouching) allowable(ctx context.Context) string {
	if len(vo.t.granting.here()) > 0 {
		return ""
	}
	a, found := vo.t.e.act(ctx, vo.t.task, vo.t.caller.Client)
	switch {
	case !found:
		return ""
	case a.Cannot != "":
		return fmt.Sprintf("Driver %s does such steps, and could not do this one now: %s.", a.Driver, strings.TrimSuffix(plain.Line(a.Cannot), "."))
	}
	return fmt.Sprintf("A person can allow KAIROS to do it: `kairos allow %s`.", vo.t.Run.ID)
}

// ends reports whether an attempt to observe the evidence failed where only that
// counts, or where a person allowed it. Then no other route is tried, and the next call looks again.
func (vo *vouching) ends(a run.Attempt) bool {
	desc, _, _ := vo.t.e.Drivers.Describe(a.Via)
	return (vo.observes() || desc.Has(driver.FeatureGrant)) &&
		!a.Untried && !input.ByID(a.Input).Reserved && decision.Outcome(a.Outcome) != decision.Declined
}

// lookFailed is the error of a call that ends so.
func (vo *vouching) lookFailed(a run.Attempt) *fault.Error {
	why := "KAIROS does this step itself"
	if vo.observes() {
		why = vo.only()
	}
	return fault.New(fault.ObservationUnavailable, "%s, and %s could not: %s (%s). No other route is tried.", why, a.Via, plain.Clip(a.Reason, 500), a.Outcome)
}
