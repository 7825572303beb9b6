package director

import (
	"encoding/json"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// trust says what drivers may vouch for.
type trust struct{ t *turn }

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

// barred says why a driver may not obtain an input; empty: it may. Input that only a
// person can give does not come from a driver that may not answer for one.
func (tr *trust) barred(in driver.Input, via string) string {
	if _, forPersons := tr.t.e.Drivers.Limits(via); forPersons {
		return ""
	}
	if input.Of(in.Kind).Personal || in.Person {
		return "the operator does not let it answer for a person"
	}
	return ""
}

// readsState reports whether the driver reads the state that is kept for the step.
func (tr *trust) readsState(name string) bool {
	v := tr.t.Run.Step.State.Version
	desc, _, _ := tr.t.e.Drivers.Describe(name)
	return v == 0 || slices.Contains(desc.StateVersions, v)
}

// keeps refuses state of a version that the driver does not list.
func (tr *trust) keeps(k input.Task, s driver.State) error {
	desc, _, _ := tr.t.e.Drivers.Describe(k.Use)
	if s.Version != 0 && !slices.Contains(desc.StateVersions, s.Version) {
		return unavailable("driver %s keeps state of version %d, which its descriptor does not list", k.Use, s.Version)
	}
	return nil
}

// doubt says what is wrong with an answer that a driver vouches for; drivers
// are not trusted to claim more than their descriptor allows.
func (tr *trust) doubt(in driver.Input, a driver.Answer, via string) string {
	desc, _, _ := tr.t.e.Drivers.Describe(via)
	switch {
	case !json.Valid(a.Value):
		return "the answer is not JSON"
	case len(a.Value) > maxValue:
		return "the answer is too large"
	case drivers.MayClaim(desc, a.Provenance):
	case a.Provenance == driver.ServerObserved:
		return "claims an observation of the server for what somebody else said, or for what it did not look at"
	case a.Provenance == driver.ClientAttested, a.Provenance == driver.LinkHolder:
		return "claims a person's word without the feature " + driver.FeatureHuman
	}
	if doubt := input.Of(in.Kind).Doubt; doubt != nil {
		if why := doubt(a.Value); why != "" {
			return why
		}
	}
	return tr.barred(in, via)
}

// personal reports whether the input asks for a person's own answer. Only the
// driver of a type that is about a person may say so.
func (tr *trust) personal(k input.Task, in driver.Input) bool {
	desc, _, _ := tr.t.e.Drivers.Describe(k.Use)
	return in.Person && desc.Approval == driver.ApprovalUser
}

// ownAnswer reports whether nobody but a person may answer the input: it asks for
// their own answer, and the step or the tree states approval mode user.
func (tr *trust) ownAnswer(k input.Task, in driver.Input) bool {
	return k.Stated && k.Approval == driver.ApprovalUser && tr.personal(k, in)
}

func (tr *trust) ref(name string) run.DriverRef {
	d, sum, ok := tr.t.e.Drivers.Describe(name)
	if !ok {
		return run.DriverRef{Name: name}
	}
	return run.DriverRef{Name: d.Name, Version: d.Version, SHA256: sum, Isolation: tr.t.e.Drivers.Isolation(name)}
}

// maxValue bounds an answer.
const maxValue = 8 << 20
