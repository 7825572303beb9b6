package director

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// tries reads the routes that were tried for the inputs of the open step.
type tries struct{ t *turn }

// troubles lists why the routes to the input failed that are closed in this call.
func (tr *tries) troubles(inputID string) string {
	var why []string
	for _, a := range tr.t.Run.Step.Tried {
		if a.Input == inputID && a.Reason != notCounted && (tr.inThisCall(a) || !tr.passes(a)) {
			why = append(why, fmt.Sprintf("%s: %s (%s)", a.Via, a.Outcome, a.Reason))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}

// exhausted reports whether a budget closed a route to the input in this call.
func (tr *tries) exhausted(inputID string) bool {
	return slices.ContainsFunc(tr.t.Run.Step.Tried, func(a run.Attempt) bool {
		return a.Input == inputID && tr.inThisCall(a) && a.Outcome == string(decision.Exhausted)
	})
}

// answeredUnusably reports whether a person answered in this call, but not in the way that
// was asked for.
func (tr *tries) answeredUnusably(inputID string) bool {
	return slices.ContainsFunc(tr.t.Run.Step.Tried, func(a run.Attempt) bool {
		desc, _, _ := tr.t.e.Drivers.Describe(a.Via)
		return a.Input == inputID && tr.inThisCall(a) && a.Outcome == string(decision.Invalid) && desc.Has(driver.FeatureHuman)
	})
}

// failedRoute names the capability that failed in this call, rather than merely
// being out of reach.
func (tr *tries) failedRoute(inputID string) string {
	for _, a := range tr.t.Run.Step.Tried {
		o := decision.Outcome(a.Outcome)
		if a.Input == inputID && tr.inThisCall(a) && o != decision.Unavailable && o != decision.Exhausted {
			return a.Via
		}
	}
	return ""
}

// reaction is what the tree says follows an attempt: once the retries are used
// up, what comes then.
func (tr *tries) reaction(a run.Attempt) decision.ActionKind {
	if a.Untried {
		return decision.Next
	}
	if tr.t.vouching.ends(a) {
		return decision.Stop
	}
	o := decision.Outcome(a.Outcome)
	desc, _, _ := tr.t.e.Drivers.Describe(a.Via)
	action := tr.t.e.Tree.On(decision.Route{Path: a.Path, Via: a.Via, Human: desc.Has(driver.FeatureHuman)}, o)
	if action.Kind != decision.Retry {
		return action.Kind
	}
	if o == decision.Invalid {
		return action.Then // the question itself was repaired as often as allowed
	}
	// A question without a reply ends its call, so that its retries are other calls.
	anyCall := o == decision.TimedOut || o == decision.Abandoned
	times := 0
	for _, b := range tr.t.Run.Step.Tried {
		same := b.Input == a.Input && b.Route == a.Route && b.Via == a.Via && b.Outcome == a.Outcome && !b.Untried
		if same && (anyCall || tr.inThisCall(b)) {
			times++
		}
	}
	if times <= action.Retries {
		return decision.Retry
	}
	return action.Then
}

// stopped is the error of a call that ends because the tree tries no other route.
func (tr *tries) stopped(a run.Attempt) *fault.Error {
	if tr.t.vouching.ends(a) {
		return tr.t.vouching.lookFailed(a)
	}
	code, advice := fault.DriverUnavailable, "Nothing is lost: the step stays open"
	switch kind := input.ByID(a.Input); {
	case a.Outcome == string(decision.Exhausted) && (kind.Missing == "" || kind.Judges):
		code = fault.SamplingBudgetExceeded
	case kind.Missing != "":
		code = kind.Missing
	}
	if input.ByID(a.Input).Approves {
		advice = "Nothing is lost, but do not do the step's work"
	}
	return fault.New(code, "Step %d stops here, because the route %s to its %s gave no answer (%s: %s) and the server is configured to try no other then. %s.",
		tr.t.Run.Step.Index, a.Via, a.Input, a.Outcome, a.Reason, advice)
}

// inThisCall reports whether the attempt is of this call, or of the one that
// asked the question it continues.
func (tr *tries) inThisCall(a run.Attempt) bool { return !a.At.Before(tr.t.started) }

// previous lists the routes that are finished for the input. What was merely
// out of reach counts in this call only: the next client may be able to, and a
// person can always be asked again for an approval. A route at which a call stopped is not
// left for another by the next.
func (tr *tries) previous(inputID string) []decision.PreviousFacts {
	var out []decision.PreviousFacts
	for _, a := range tr.t.Run.Step.Tried {
		if a.Input != inputID || tr.reaction(a) == decision.Retry || (tr.passes(a) && !tr.inThisCall(a) && !tr.reportedInstead(a)) {
			continue
		}
		out = append(out, decision.PreviousFacts{Via: a.Via, Outcome: decision.Outcome(a.Outcome), Route: a.Route})
	}
	return out
}

// reportedInstead reports whether the submission is what an agent was asked for because
// this attempt had failed. It is not put off by another attempt.
func (tr *tries) reportedInstead(a run.Attempt) bool {
	kind := input.ByID(a.Input)
	if kind.Approves {
		desc, _, _ := tr.t.e.Drivers.Describe(a.Via)
		return tr.t.approvals.reported && !a.Untried && !desc.Has(driver.FeatureAgent)
	}
	return kind.TakesReport != nil && kind.TakesReport(tr.t.task) && tr.t.solution != nil && says(tr.t.solution.Evidence)
}

// passes reports whether an attempt closes its route in its own call alone.
func (tr *tries) passes(a run.Attempt) bool {
	switch decision.Outcome(a.Outcome) {
	case decision.Unavailable, decision.Errored, decision.TimedOut, decision.Exhausted:
		return true
	}
	return input.ByID(a.Input).Approves || tr.reaction(a) == decision.Stop
}
