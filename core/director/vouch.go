package director

import (
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// limit lowers what the event records to what the operator lets its drivers
// vouch for.
func (tr *trust) limit(ev *run.Event) {
	if ev.Answer != nil {
		a := *ev.Answer
		a.Provenance = tr.limited(a.Via, a.Provenance)
		ev.Answer = &a
	}
	if ev.Approval != nil {
		a := *ev.Approval
		a.Provenance = tr.limited(a.Via, a.Provenance)
		ev.Approval = &a
	}
}

// limited is the weaker of a provenance and the driver's limit.
func (tr *trust) limited(via string, p driver.Provenance) driver.Provenance {
	strongest, _ := tr.t.e.Drivers.Limits(via)
	if strongest == "" {
		return p
	}
	return run.Weakest([]driver.Provenance{p, strongest})
}

// reported says whether an answer is the agent's report, whatever limit it was
// recorded with.
func (tr *trust) reported(a driver.Answer) bool {
	if a.Provenance != driver.AgentReported {
		return false
	}
	desc, _, known := tr.t.e.Drivers.Describe(a.Via)
	strongest, _ := tr.t.e.Drivers.Limits(a.Via)
	return !known || desc.Has(driver.FeatureAgent) || strongest != driver.AgentReported
}

// barred says why a driver may not obtain an input; empty: it may. What only a
// person can give does not come from a driver that may not answer for one.
func (tr *trust) barred(in driver.Input, via string) string {
	if _, forPersons := tr.t.e.Drivers.Limits(via); forPersons {
		return ""
	}
	if in.Kind == driver.KindApproval || in.Kind == driver.KindRunInput || in.Person {
		return "the operator does not let it answer for a person"
	}
	return ""
}
