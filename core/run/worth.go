package run

import (
	"encoding/json"
	"slices"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// strength orders the provenances for a summary, the weakest first. None of them
// contains another, so the weakest says only where to look first.
var strength = []driver.Provenance{
	driver.AgentReported, driver.ModelGenerated, driver.LinkHolder, driver.ClientAttested, driver.ServerObserved,
}

// Provenances lists them all, the weakest first.
func Provenances() []driver.Provenance { return slices.Clone(strength) }

// Weakest is the provenance that proves least; one that is not known here proves
// less than any that is. Empty: there is none.
func Weakest(provenances []driver.Provenance) driver.Provenance {
	if len(provenances) == 0 {
		return ""
	}
	return slices.MinFunc(provenances, func(a, b driver.Provenance) int {
		return slices.Index(strength, a) - slices.Index(strength, b)
	})
}

// NotRequired is the verdict on evidence that failed a challenge which does not
// require it.
const NotRequired = "failed, not required"

// Verdict is what became of the evidence of a solved step, for people.
func (v Evidence) Verdict() string {
	if !v.Failed {
		return "accepted"
	}
	if _, why := FailedProof(v.Proof); why != "" {
		return NotRequired + ": " + why
	}
	return NotRequired
}

// FailedProof reports whether a driver's proof says that the evidence does not
// satisfy the challenge ("passed": false), and why ("failure").
func FailedProof(proof json.RawMessage) (failed bool, why string) {
	var v struct {
		Passed  *bool  `json:"passed"`
		Failure string `json:"failure"`
	}
	if json.Unmarshal(proof, &v) != nil || v.Passed == nil || *v.Passed {
		return false, ""
	}
	return true, v.Failure
}
