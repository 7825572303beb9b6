package plan

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
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
