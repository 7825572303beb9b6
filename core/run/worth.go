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
	driver.LinkHolder:     "answered by somebody with the link",
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

// Voucher is who vouches for a solved step.
type Voucher struct {
	Provenance driver.Provenance
	Boundary   driver.Boundary   // of an observation; empty: not recorded
	Files      driver.Provenance // of the files that the step demanded; empty: none
}

// Vouchers are those of the solved steps.
func (r Run) Vouchers() []Voucher {
	all := make([]Voucher, len(r.Proofs))
	for i, p := range r.Proofs {
		all[i] = Voucher{Provenance: p.Provenance, Boundary: p.Boundary, Files: r.Evidence[i].Files()}
	}
	return all
}

// Files says who vouches for the files of the step; empty: it demanded none.
func (v Evidence) Files() driver.Provenance {
	for _, a := range v.Answers {
		if a.InputID == driver.KindFiles {
			return a.Provenance
		}
	}
	return ""
}

// Worth says in one sentence, without its full stop, who vouches for solved steps, the
// strongest first: "3 steps seen by KAIROS (same account), 1 answered by a person".
// Person is the word for a person; empty: "a person". No steps: empty.
func Worth(all []Voucher, person string) string {
	steps, files := map[Voucher]int{}, map[Voucher]int{}
	for _, v := range all {
		steps[recorded(v.Provenance, v.Boundary)]++
		if v.Files != "" && v.Files != v.Provenance {
			files[recorded(v.Files, "")]++
		}
	}
	said := counted(steps, person)
	if len(files) > 0 {
		said += "; files of " + counted(files, person)
	}
	return said
}

// recorded takes the weakest boundary for an observation of which none is recorded.
func recorded(p driver.Provenance, b driver.Boundary) Voucher {
	if p == driver.ServerObserved {
		b = WeakestBoundary(b, "")
	}
	return Voucher{Provenance: p, Boundary: b}
}

// counted lists how many there are of each, the strongest first.
func counted(n map[Voucher]int, person string) string {
	order := slices.SortedFunc(maps.Keys(n), func(a, b Voucher) int {
		return cmp.Or(
			slices.Index(strength, b.Provenance)-slices.Index(strength, a.Provenance),
			slices.Index(driver.Boundaries(), b.Boundary)-slices.Index(driver.Boundaries(), a.Boundary),
			strings.Compare(string(a.Provenance), string(b.Provenance)),
		)
	})
	var parts []string
	for i, v := range order {
		said, unit := Vouched(v.Provenance, v.Boundary), ""
		if v.Provenance == driver.ClientAttested && person != "" {
			said = "answered by " + person
		}
		switch {
		case i > 0:
		case n[v] == 1:
			unit = " step"
		default:
			unit = " steps"
		}
		parts = append(parts, fmt.Sprintf("%d%s %s", n[v], unit, said))
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
