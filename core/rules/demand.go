package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Demand is what must hold for a step. The zero value demands nothing.
type Demand struct {
	// Evidence are the provenances that count; nil means all. Empty but not nil means
	// none, because demands contradict each other.
	Evidence []driver.Provenance `json:"evidence,omitzero"`
	// Approval says that a person approves first; nil: nobody has to.
	Approval *Approval `json:"approval,omitempty"`
	// Judge is the capability driver that judges the result; empty: none has to.
	Judge string `json:"judge,omitempty"`
	// Judges are further drivers of which each should be the only judge: a contradiction.
	Judges []string `json:"judges,omitempty"`
	// By names the rules that matched, with their lines and what each demands.
	By []string `json:"by,omitempty"`
}

// Approval says how a step is approved.
type Approval struct {
	// How are the ways that count, as drivers name them, with those that they contain
	// (protocol.WithParts); nil means all that the server takes. Empty but not nil means none.
	How []string `json:"how,omitzero"`
	// Phrases must be typed, each of them.
	Phrases []string `json:"phrases,omitempty"`
	// After is how long an answer has to take at least, from when the question was sent; a
	// faster one does not count. Zero: any counts.
	After time.Duration `json:"after,omitempty"`
	// People have to approve, each entry for itself. NotRunner: who owns the run does not count.
	People    []People `json:"people,omitempty"`
	NotRunner bool     `json:"not_runner,omitempty"`
}

// And is what meets both demands.
func (d Demand) And(other Demand) Demand {
	d.Evidence = intersection(d.Evidence, other.Evidence)
	d.Approval = d.Approval.and(other.Approval)
	d.Judges = union(d.Judges, other.Judges)
	switch {
	case d.Judge == "":
		d.Judge = other.Judge
	case other.Judge != "" && other.Judge != d.Judge:
		d.Judges = union(d.Judges, []string{other.Judge})
	}
	d.By = union(d.By, other.By)
	return d
}

// Narrowed is the demand for evidence of which only these provenances count; nil
// takes any.
func (d Demand) Narrowed(only []driver.Provenance) Demand { return d.And(Demand{Evidence: only}) }

func (a *Approval) and(other *Approval) *Approval {
	if a == nil {
		a, other = other, nil
	}
	if a == nil {
		return nil
	}
	both := *a
	both.How, both.Phrases, both.People = slices.Clone(a.How), slices.Clone(a.Phrases), slices.Clone(a.People)
	if other != nil {
		both = Approval{
			How: intersection(a.How, other.How), Phrases: union(a.Phrases, other.Phrases), After: max(a.After, other.After),
			People: everybody(a.People, other.People), NotRunner: a.NotRunner || other.NotRunner,
		}
	}
	return &both
}

// intersection is what both lists have; nil means everything.
func intersection[T comparable](a, b []T) []T {
	switch {
	case a == nil:
		return slices.Clone(b)
	case b == nil:
		return slices.Clone(a)
	}
	both := make([]T, 0, len(a))
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

// union is what one of the lists has, each once.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// Zero reports whether nothing is demanded.
func (d Demand) Zero() bool { return d.Evidence == nil && d.Approval == nil && d.Judge == "" }

// Impossible says why nothing can meet the demand; empty: something can.
func (d Demand) Impossible() string {
	switch {
	case d.Evidence != nil && len(d.Evidence) == 0:
		return "no evidence counts"
	case d.Approval != nil && d.Approval.How != nil && len(d.Approval.How) == 0:
		return "no way of approving counts"
	case len(d.Judges) > 0:
		return fmt.Sprintf("a step has one judge, and %s should each be it", strings.Join(append([]string{d.Judge}, d.Judges...), " and "))
	}
	return ""
}

// Counts reports whether evidence with the provenance counts.
func (d Demand) Counts(p driver.Provenance) bool {
	return d.Evidence == nil || slices.Contains(d.Evidence, p)
}

// Words say what is demanded, in the order evidence, approval, judge; empty: nothing.
func (d Demand) Words() string {
	var all []string
	if d.Evidence != nil {
		all = append(all, "evidence: "+evidenceWord(d.Evidence))
	}
	if a := d.Approval; a != nil {
		said := "approval"
		if a.How != nil {
			said += " by " + strings.Join(protocol.WithoutParts(a.How), " or ")
		}
		for _, p := range a.People {
			said += ", " + p.Words()
		}
		if a.NotRunner {
			said += ", not the runner"
		}
		for _, p := range a.Phrases {
			said += fmt.Sprintf(", typed %q", p)
		}
		if a.After > 0 {
			said += fmt.Sprintf(", after %s at the earliest", a.After)
		}
		all = append(all, said)
	}
	if d.Judge != "" {
		all = append(all, "judge: "+d.Judge)
	}
	return strings.Join(all, "; ")
}
