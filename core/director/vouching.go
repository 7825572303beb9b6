package director

import (
	"context"
	"fmt"
	"slices"

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

// demanded is what the open step demands, once that is worked out; nil: anybody
// may vouch.
func (vo *vouching) demanded() []driver.Provenance {
	if vo.t.opened != vo.t.Run.Step.Index {
		return nil
	}
	return vo.t.task.Vouchers
}

// observes reports whether only what the server observed counts.
func (vo *vouching) observes() bool {
	return slices.Equal(vo.demanded(), protocol.FromServer.Provenances())
}

// judgeLooks reports whether the challenge driver may look at the world itself: then
// its verdict may be an observation, whoever supplied what it looks at.
func (vo *vouching) judgeLooks(k input.Task) bool {
	desc, _, _ := vo.t.e.Drivers.Describe(k.Use)
	return drivers.MayClaim(desc, driver.ServerObserved) && vo.counts(k, vo.t.trust.limited(k.Use, driver.ServerObserved))
}

func (vo *vouching) counts(k input.Task, p driver.Provenance) bool {
	return k.Vouchers == nil || slices.Contains(k.Vouchers, p)
}

// cannot says why evidence that comes through a driver does not count; empty: it
// may count.
func (vo *vouching) cannot(k input.Task, in driver.Input, via string) string {
	if k.Vouchers == nil || !input.Of(in.Kind).Evidence || vo.judgeLooks(k) {
		return ""
	}
	desc, _, known := vo.t.e.Drivers.Describe(via)
	for _, p := range k.Vouchers {
		if !known || drivers.Supplies(desc, p) && vo.t.trust.limited(via, p) == p {
			return ""
		}
	}
	return "what it supplies does not count for this step"
}

// counted checks the provenance of evidence that a driver accepted: whatever the
// way it came, the step takes no weaker one.
func (vo *vouching) counted(k input.Task, evidence driver.Answer) string {
	if vo.counts(k, evidence.Provenance) {
		return ""
	}
	return fmt.Sprintf("%s. This evidence is %s (driver %s)", vo.only(), evidence.Provenance, evidence.Via)
}

// only says whose word counts.
func (vo *vouching) only() string {
	if vo.observes() {
		return fmt.Sprintf("Step %q counts only if KAIROS observes it itself", vo.t.step().Name)
	}
	return fmt.Sprintf("Step %q counts only if a person answers it, or KAIROS observes it itself", vo.t.step().Name)
}

// isClaim reports whether the submission is evidence that cannot count. For a step
// that a driver was allowed to do it may be a proposal.
func (vo *vouching) isClaim(k input.Task, in driver.Input) bool {
	return k.Vouchers != nil && input.Of(in.Kind).Evidence && vo.t.solution.supplied() && !vo.judgeLooks(k) && len(vo.t.granting.here()) == 0
}

// refuse records the submission as a claim, which nobody judges and which is not
// counted. The same claim again is not recorded again.
func (vo *vouching) refuse(ctx context.Context, k input.Task) (Round, error) {
	if err := vo.record(); err != nil {
		return Round{}, err
	}
	return vo.t.replies.halt(ctx, fault.New(fault.EvidenceNotAccepted, "%s. What was submitted is recorded as a claim, and is neither judged nor counted.", vo.only()).
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
	if vo.counts(k, driver.AgentReported) {
		return nil
	}
	return fault.New(fault.InvalidArgument, "%s, so what you know of it cannot be its evidence.", vo.only()).
		WithHint("if it did not happen, say so, and it is tried again; if it did, end the run with `kairos runs abandon` and begin another one")
}

// nobody is the error where no route is left that could supply what counts.
func (vo *vouching) nobody(in driver.Input) *fault.Error {
	code, whom := fault.ObservationUnavailable, "it cannot do so here"
	if !vo.observes() {
		code, whom = fault.ApprovalUnavailable, "neither is possible here"
	}
	may := ""
	if len(vo.t.granting.here()) == 0 && len(vo.t.e.actors(vo.t.task)) > 0 {
		may = fmt.Sprintf(" A person can allow KAIROS to do it: `kairos allow %s`.", vo.t.Run.ID)
	}
	return fault.New(code, "%s, and %s%s.%s", vo.only(), whom, vo.t.tries.troubles(in.ID), may)
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
