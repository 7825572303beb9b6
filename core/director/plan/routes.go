package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// DueInput is the one input that is open: what the core answers itself, then
// approval, evidence, files.
func DueInput(s *State, k *input.Task) driver.Input {
	step := s.Run.Step
	for _, in := range step.Inputs {
		if input.Of(in.Kind).Internal {
			return in
		}
	}
	for _, in := range step.Inputs {
		// Neither a judgement nor a look at files is part of what a person approved.
		if step.Gated && !input.Of(in.Kind).Ungated && !approvalStands(s) && !plansFirst(s, k, in) {
			return ApprovalQuestion(s, k, in)
		}
	}
	return step.Inputs[0]
}

func attemptAt(s *State, inputID string, r decision.Route, o decision.Outcome, reason string) run.Attempt {
	return run.Attempt{Input: inputID, Route: r.Index, Path: r.Path, Via: r.Via, Outcome: string(o), Reason: plain.Clip(reason, 500), At: At(s)}
}

// declinedFor is the error if a person declined the input and is not asked again.
func declinedFor(s *State, by string) *fault.Error {
	at := ""
	if d := s.Run.Step.LastDecline; d != nil {
		at = d.At.UTC().Format(" at " + time.DateTime + " UTC")
	}
	return fault.New(fault.UserDeclined, "%s", plain.Sentences(
		fmt.Sprintf("A person declined this step%s (%s), and this client cannot ask them again", at, by), HowToTakeBack(s)))
}

// troubles lists why the routes to the input failed that are closed in this call.
func troubles(s *State, inputID string) string {
	var why []string
	for _, a := range s.Run.Step.Tried {
		if a.Input == inputID && a.Reason != notCounted && (inThisCall(s, a) || !passes(s, a)) {
			why = append(why, fmt.Sprintf("%s: %s (%s)", a.Via, a.Outcome, a.Reason))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}

// budgetExhausted reports whether a budget closed a route to the input in this call.
func budgetExhausted(s *State, inputID string) bool {
	return slices.ContainsFunc(s.Run.Step.Tried, func(a run.Attempt) bool {
		return a.Input == inputID && inThisCall(s, a) && a.Outcome == string(decision.Exhausted)
	})
}

// answeredUnusably reports whether a person answered in this call, but not in the way that
// was asked for.
func answeredUnusably(s *State, inputID string) bool {
	return slices.ContainsFunc(s.Run.Step.Tried, func(a run.Attempt) bool {
		desc, _, _ := s.Drivers.Describe(a.Via)
		return a.Input == inputID && inThisCall(s, a) && a.Outcome == string(decision.Invalid) && desc.Has(driver.FeatureHuman)
	})
}

// failedRoute names the capability that failed in this call, rather than merely
// being out of reach.
func failedRoute(s *State, inputID string) string {
	for _, a := range s.Run.Step.Tried {
		o := decision.Outcome(a.Outcome)
		if a.Input == inputID && inThisCall(s, a) && o != decision.Unavailable && o != decision.Exhausted {
			return a.Via
		}
	}
	return ""
}

// Reaction is what the tree says follows an attempt: once the retries are used
// up, what comes then.
func Reaction(s *State, a run.Attempt) decision.ActionKind {
	if a.Untried {
		return decision.Next
	}
	if endsCall(s, a) {
		return decision.Stop
	}
	o := decision.Outcome(a.Outcome)
	desc, _, _ := s.Drivers.Describe(a.Via)
	action := s.Tree.On(decision.Route{Path: a.Path, Via: a.Via, Human: desc.Has(driver.FeatureHuman)}, o)
	if action.Kind != decision.Retry {
		return action.Kind
	}
	if o == decision.Invalid {
		return action.Then // the question itself was repaired as often as allowed
	}
	// A question without a reply ends its call, so that its retries are other calls.
	anyCall := o == decision.TimedOut || o == decision.Abandoned
	times := 0
	for _, b := range s.Run.Step.Tried {
		same := b.Input == a.Input && b.Route == a.Route && b.Via == a.Via && b.Outcome == a.Outcome && !b.Untried
		if same && (anyCall || inThisCall(s, b)) {
			times++
		}
	}
	if times <= action.Retries {
		return decision.Retry
	}
	return action.Then
}

// Stopped is the error of a call that ends because the tree tries no other route.
func Stopped(s *State, a run.Attempt) *fault.Error {
	if endsCall(s, a) {
		return lookFailed(s, a)
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
		s.Run.Step.Index, a.Via, a.Input, a.Outcome, a.Reason, advice)
}

// inThisCall reports whether the attempt is of this call, or of the one that
// asked the question it continues.
func inThisCall(s *State, a run.Attempt) bool { return !a.At.Before(s.Started) }

// previousRoutes lists the routes that are finished for the input. What was merely
// out of reach counts in this call only: the next client may be able to, and a
// person can always be asked again for an approval. A route at which a call stopped is not
// left for another by the next.
func previousRoutes(s *State, inputID string) []decision.PreviousFacts {
	var out []decision.PreviousFacts
	for _, a := range s.Run.Step.Tried {
		if a.Input != inputID || Reaction(s, a) == decision.Retry || (passes(s, a) && !inThisCall(s, a) && !reportedInstead(s, a)) {
			continue
		}
		out = append(out, decision.PreviousFacts{Via: a.Via, Outcome: decision.Outcome(a.Outcome), Route: a.Route})
	}
	return out
}

// reportedInstead reports whether the submission is what an agent was asked for because
// this attempt had failed. It is not put off by another attempt.
func reportedInstead(s *State, a run.Attempt) bool {
	kind := input.ByID(a.Input)
	if kind.Approves {
		desc, _, _ := s.Drivers.Describe(a.Via)
		return s.Reported && !a.Untried && !desc.Has(driver.FeatureAgent)
	}
	return kind.TakesReport != nil && s.Task != nil && kind.TakesReport(s.Task) && s.Solution.HasEvidence()
}

// passes reports whether an attempt closes its route in its own call alone.
func passes(s *State, a run.Attempt) bool {
	switch decision.Outcome(a.Outcome) {
	case decision.Unavailable, decision.Errored, decision.TimedOut, decision.Exhausted:
		return true
	}
	return input.ByID(a.Input).Approves || Reaction(s, a) == decision.Stop
}

// KindOf is the kind of an input by its id.
func KindOf(step run.Step, id string) string {
	if input.ByID(id).Reserved {
		return id
	}
	for _, in := range step.Inputs {
		if in.ID == id {
			return in.Kind
		}
	}
	return input.EvidenceKind.Name
}
