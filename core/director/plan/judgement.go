package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// FailedAnyway reports whether the evidence of a step passes only because the
// challenge does not require a good result.
func FailedAnyway(s *State, k input.Task, ev run.Evidence) bool {
	if k.Common.IsRequired() {
		return false
	}
	if failed, _ := run.FailedProof(ev.Proof); failed {
		return true
	}
	return slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool {
		check := input.ByID(a.InputID).Check
		if check == nil {
			return false
		}
		why, err := check(k, a)
		return err == nil && why != ""
	})
}

// EvidenceOf is the answer that came from outside, which a verdict has to rest on.
func EvidenceOf(s run.Step) (driver.Answer, bool) {
	for _, a := range s.Answers {
		if a.Via != runs.CoreDriver && !input.ByID(a.InputID).Judges {
			return a, true
		}
	}
	return driver.Answer{}, false
}

// Unjudged is what happens where nobody can judge.
func Unjudged(s *State, k input.Task) Action {
	why := "nobody can judge the result" + Troubles(s, input.JudgementKind.Name)
	if k.Common.Judge.Required {
		code, again := fault.JudgeUnavailable, "from a client that offers sampling, or once the operator has a model that judges"
		switch {
		case Exhausted(s, input.JudgementKind.Name):
			code = fault.SamplingBudgetExceeded
			again = "once the budget that the message names has room (that of an hour comes back by itself, that of a run only where the operator raises it)"
		case Troubles(s, input.JudgementKind.Name) != "":
			again = "once what the message names is fixed"
		}
		return Halt{Fault: fault.New(code, "Step %d demands that its result is judged, and %s. The result is kept", s.Run.Step.Index, why).
			WithNext("call kairos_next with %s again %s, or call kairos_attest with outcome failure", protocol.URI(k.Step.UUID), again)}
	}
	value, _ := json.Marshal(driver.JudgeValue{Reason: runs.NotJudged + plain.Clip(why, 1000)}) // two texts
	return Apply{
		Note: fmt.Sprintf("The result of step %d is not judged: %s.", s.Run.Step.Index, plain.Clip(why, 300)),
		Events: []run.Event{run.Event{Kind: run.Supplied, Input: input.JudgementKind.Name, Via: runs.CoreDriver, Answer: &driver.Answer{
			InputID: input.JudgementKind.Name, Value: value, Via: runs.CoreDriver, // nobody vouches for what nobody said
		}}},
	}
}
