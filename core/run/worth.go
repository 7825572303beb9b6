package run

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// strength orders the provenances for a summary, the weakest first. None of them
// contains another, so the weakest says only where to look first.
var strength = driver.Provenances()

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

// WeakestBoundary is the boundary of an observation: what the operator declared,
// unless who looked knows of a weaker one. Nothing that is said raises it.
func WeakestBoundary(declared, known driver.Boundary) driver.Boundary {
	all := driver.Boundaries()
	at := max(slices.Index(all, declared), 0) // not declared: the weakest
	if k := slices.Index(all, known); k >= 0 {
		at = min(at, k)
	}
	return all[at]
}

// words say in plain English who vouches for evidence.
var words = map[driver.Provenance]string{
	driver.AgentReported:  "reported by the agent",
	driver.ModelGenerated: "written by a model",
	driver.LinkHolder:     "answered by whoever had the link",
	driver.ClientAttested: "answered by a person",
	driver.ServerObserved: "seen by KAIROS",
}

// Vouched says who vouches for evidence, for people: "seen by KAIROS (same
// account)". An unknown provenance is given as it is.
func Vouched(p driver.Provenance, b driver.Boundary) string {
	said, known := words[p]
	switch {
	case !known:
		return string(p)
	case b != "":
		return said + " (" + strings.ReplaceAll(string(b), "-", " ") + ")"
	}
	return said
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
