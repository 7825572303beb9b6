package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// Voucher is who vouches for a step.
type Voucher struct {
	// Provenance of the evidence. It is empty where a step has no challenge: it proves nothing.
	Provenance driver.Provenance
	Files      driver.Provenance // of the files that the step demanded; empty: none
	// Failed: the evidence failed a challenge that does not require it.
	Failed bool
	// Answered and Approved are the delays of a person's answer and approval that came faster than a person
	// can give them; nil: they did not.
	Answered, Approved *Delay
}

// Worth says what the run's steps are worth.
func (r Run) Worth() string {
	all := make([]Voucher, len(r.Proofs))
	for i, p := range r.Proofs {
		all[i] = p.Voucher(*r.Evidence[i])
	}
	return Worth(r.StepCount, all)
}

// Voucher is who vouches for the step of the proof, and for the files that it demanded.
func (p Proof) Voucher(ev Evidence) Voucher {
	if p.Driver.Name == CoreDriver { // it had no challenge
		return Voucher{}
	}
	v := Voucher{Provenance: p.Provenance, Files: ev.Files(), Failed: ev.Failed}
	if a := ev.Approval; a != nil && a.Delay.Under() {
		v.Approved = a.Delay
	}
	if v.Provenance == driver.ClientAttested {
		v.Answered = ev.quick(p)
	}
	if v.Answered != nil && v.Approved != nil { // one answer was both, or says the same of the client
		v.Answered, v.Approved = slower(v.Answered, v.Approved), nil
	}
	return v
}

// quick is the delay of the evidence that a client gave itself, or nil. An approval may be that evidence.
func (v Evidence) quick(p Proof) *Delay {
	for _, a := range v.Answers {
		if a.Provenance != driver.ClientAttested || a.Via != p.Via.Name {
			continue
		}
		if d := v.DelayOf(a.InputID); d.Under() {
			return d
		} else if d != nil {
			continue
		}
		if v.Approval != nil && v.Approval.Delay.Under() && v.Approval.Via == a.Via {
			return v.Approval.Delay
		}
	}
	return nil
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

// Worth says in one line, without a full stop, what so many steps of a run are worth, of
// which all have a proof, or what those of a protocol will be at least. The steps that prove
// least come first: "1 of 4 steps proves nothing, 2 rest on the agent's word, 1 seen by KAIROS".
func Worth(total int, all []Voucher) string {
	steps, files, approvals := map[grade]int{}, map[grade]int{}, 0
	var answered, approved *Delay
	if left := total - len(all); left > 0 {
		steps[unproved] = left
	}
	for _, v := range all {
		steps[v.grade()]++
		if v.Files != "" && v.Files != v.Provenance {
			files[grade(v.Files)]++
		}
		answered, approved = slower(answered, v.Answered), slower(approved, v.Approved)
		if v.Approved != nil {
			approvals++
		}
	}
	said := counted(steps, total, answered)
	if len(files) > 0 {
		said += "; files of " + counted(files, 0, nil)
	}
	if approvals > 0 {
		said += fmt.Sprintf("; approval of %s %s", plural(approvals), quickly(approvals, approved))
	}
	return said
}

// plural counts steps.
func plural(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// quickly says of n answers, of which the slowest took so long, that the client gave them.
func quickly(n int, slowest *Delay) string {
	if n > 1 {
		return fmt.Sprintf("answered by the client in at most %d ms", slowest.After.Milliseconds())
	}
	return slowest.Words()
}

// grade is what a step is worth: a provenance, or one of these.
type grade string

const (
	unproved grade = "unproved"
	nothing  grade = "nothing"
	failed   grade = "failed"
	quick    grade = "quick" // answered by the client, too fast for a person
)

// grades are ordered, what proves least first.
var grades = slices.Concat([]grade{unproved, nothing, failed}, slices.Insert(graded(strength), slices.Index(strength, driver.ModelGenerated)+1, quick))

func graded(all []driver.Provenance) []grade {
	out := make([]grade, len(all))
	for i, p := range all {
		out[i] = grade(p)
	}
	return out
}

func (v Voucher) grade() grade {
	switch {
	case v.Provenance == "":
		return nothing
	case v.Failed:
		return failed
	case v.Answered != nil:
		return quick
	}
	return grade(v.Provenance)
}

// rests says of one step and of several what they are worth.
var rests = map[grade][2]string{
	unproved:                     {"is not proved", "are not proved"},
	nothing:                      {"proves nothing", "prove nothing"},
	failed:                       {"failed and was not required", "failed and were not required"},
	grade(driver.AgentReported):  {"rests on the agent's word", "rest on the agent's word"},
	grade(driver.ModelGenerated): {"rests on a model's word", "rest on a model's word"},
}

// say words what n steps of a grade are worth, with the longest delay of those that the client answered itself.
func (g grade) say(n int, slowest *Delay) string {
	if g == quick {
		return quickly(n, slowest)
	}
	if forms, ok := rests[g]; ok {
		return forms[min(n, 2)-1]
	}
	return Vouched(driver.Provenance(g))
}

// counted lists how many there are of each, what proves least first: steps out of a total,
// or files, which have none.
func counted(n map[grade]int, total int, slowest *Delay) string {
	if total > 1 && n[unproved] == total {
		return fmt.Sprintf("none of %d steps is proved", total)
	}
	order := slices.SortedFunc(maps.Keys(n), func(a, b grade) int {
		return cmp.Or(slices.Index(grades, a)-slices.Index(grades, b), cmp.Compare(a, b))
	})
	parts := make([]string, len(order))
	for i, g := range order {
		parts[i] = strconv.Itoa(n[g])
		switch {
		case i > 0:
		case n[g] == 1 && total <= 1:
			parts[i] += " step"
		case n[g] == total && total == 2:
			parts[i] = "both steps"
		case n[g] == total:
			parts[i] = fmt.Sprintf("all %d steps", total)
		case total > 0:
			parts[i] += fmt.Sprintf(" of %d steps", total)
		default:
			parts[i] += " steps"
		}
		if total > 0 {
			parts[i] += " " + g.say(n[g], slowest)
		} else {
			parts[i] += " " + Vouched(driver.Provenance(g))
		}
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
