package director

import (
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reaction is what the tree says follows an attempt: once the retries are used
// up, what comes then.
func (tr *tries) reaction(a run.Attempt) decision.ActionKind {
	if a.Untried {
		return decision.Next
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
	code, advice := fault.DriverUnavailable, "Nothing is lost: the step stays open"
	switch {
	case a.Input == driver.KindApproval:
		code, advice = fault.ApprovalUnavailable, "Nothing is lost, but do not do the step's work"
	case a.Input == driver.KindFiles:
		code = fault.FilesUnverified
	case a.Outcome == string(decision.Exhausted):
		code = fault.SamplingBudgetExceeded
	case a.Input == driver.KindJudge:
		code = fault.JudgeUnavailable
	}
	return fault.New(code, "Step %d stops here, because the route %s to its %s gave no answer (%s: %s) and the server is configured to try no other then. %s.",
		tr.t.Run.Step.Index, a.Via, a.Input, a.Outcome, a.Reason, advice)
}
