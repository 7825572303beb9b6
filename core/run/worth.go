package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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

// words say in plain English who vouches for evidence.
var words = map[driver.Provenance]string{
	driver.AgentReported:  "reported by the agent",
	driver.ModelGenerated: "written by a model",
	driver.LinkHolder:     "answered by somebody with the link",
	driver.ClientAttested: "answered by a person",
	driver.ServerObserved: "seen by KAIROS",
}

// Vouched says who vouches for evidence, for people. An unknown provenance is given as
// it is.
func Vouched(p driver.Provenance) string { return cmp.Or(words[p], string(p)) }

// Voucher is who vouches for a solved step.
type Voucher struct {
	Provenance driver.Provenance
	Files      driver.Provenance // of the files that the step demanded; empty: none
}

// Vouchers are those of the solved steps.
func (r Run) Vouchers() []Voucher {
	all := make([]Voucher, len(r.Proofs))
	for i, p := range r.Proofs {
		all[i] = Voucher{Provenance: p.Provenance, Files: r.Evidence[i].Files()}
	}
	return all
}

// Files says who vouches for the files of the step. It is empty if it demanded none.
func (v Evidence) Files() driver.Provenance {
	for _, a := range v.Answers {
		if a.InputID == driver.KindFiles {
			return a.Provenance
		}
	}
	return ""
}

// Worth says in one sentence, without its full stop, who vouches for solved steps, the
// strongest first: "3 steps seen by KAIROS, 1 answered by a person".
// Person is the word for a person, by default "a person". Without steps it returns "".
func Worth(all []Voucher, person string) string {
	steps, files := map[driver.Provenance]int{}, map[driver.Provenance]int{}
	for _, v := range all {
		steps[v.Provenance]++
		if v.Files != "" && v.Files != v.Provenance {
			files[v.Files]++
		}
	}
	said := counted(steps, person)
	if len(files) > 0 {
		said += "; files of " + counted(files, person)
	}
	return said
}

// counted lists how many there are of each, the strongest first.
func counted(n map[driver.Provenance]int, person string) string {
	order := slices.SortedFunc(maps.Keys(n), func(a, b driver.Provenance) int {
		return cmp.Or(slices.Index(strength, b)-slices.Index(strength, a), cmp.Compare(a, b))
	})
	var parts []string
	for i, p := range order {
		said, unit := Vouched(p), ""
		if p == driver.ClientAttested && person != "" {
			said = "answered by " + person
		}
		switch {
		case i > 0:
		case n[p] == 1:
			unit = " step"
		default:
			unit = " steps"
		}
		parts = append(parts, fmt.Sprintf("%d%s %s", n[p], unit, said))
	}
	return strings.Join(parts, ", ")
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
