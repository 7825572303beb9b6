package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Difference is a decision on which two trees differ.
type Difference struct {
	Old Way      `json:"old"`
	New Way      `json:"new"`
	Why []string `json:"why"` // the conditions and needs that part them, for people
	// Doubts names facts that the new tree reads and that were not kept. With
	// them the new tree may decide differently.
	Doubts []string `json:"doubts,omitempty"`
}

// Way is the result of a decision.
type Way struct {
	Rule string `json:"rule,omitempty"`
	Line int    `json:"line,omitempty"` // of the route, else of the rule
	// Use is the driver that judges, Via the one that obtains; empty: none.
	Use string `json:"use,omitempty"`
	Via string `json:"via,omitempty"`
	// Approval is the mode that the route or its rule requires.
	Approval driver.ApprovalMode `json:"approval,omitempty"`
	// Demand of the policy on the evidence, in words.
	Demand string `json:"demand,omitempty"`
}

// Compare repeats a decision with two trees and reports whether the drivers or
// the approval differ. Names, lines and conditions do not count.
func Compare(before, after *Tree, r Record) (d Difference, differ bool) {
	was := before.Decide(r.Kind, r.Facts)
	is := after.Decide(r.Kind, r.Facts)
	if len(r.Previous) > 0 {
		facts := r.Facts
		facts.Previous = movedRoutes(before.routesOf(was), after.routesOf(is)).translate(facts.Previous)
		is = after.Decide(r.Kind, facts)
	}
	d = Difference{Old: wayOf(was), New: wayOf(is), Doubts: r.doubts(is)}
	same := d.Old.Use == d.New.Use && d.Old.Via == d.New.Via && d.Old.Approval == d.New.Approval && d.Old.Demand == d.New.Demand
	if !same {
		d.Why = append(reasons(was, is), d.demands()...)
	}
	return d, !same
}

func wayOf(d Decision) Way {
	w := Way{Rule: d.Rule, Line: d.Line, Use: d.Use, Approval: d.Approval, Demand: d.Demand.words()}
	if d.Route != nil {
		w.Line, w.Via = d.Route.Line, d.Route.Via
		if d.Route.Approval != "" {
			w.Approval = d.Route.Approval
		}
	}
	return w
}

// reasons explains why each tree did not take the other's route.
func reasons(was, is Decision) []string {
	var why []string
	if was.Rule != is.Rule {
		why = append(why, "the old tree decides by "+chosenRule(was), "the new tree decides by "+chosenRule(is))
	}
	why = append(why, passedOver("the new tree", is, was)...)
	return append(why, passedOver("the old tree", was, is)...)
}

// demands describes how judge and approval of the two trees differ.
func (d Difference) demands() []string {
	var why []string
	if d.Old.Use != d.New.Use {
		why = append(why, fmt.Sprintf("the judge is %s in the old tree and %s in the new tree", named(d.Old.Use), named(d.New.Use)))
	}
	if d.Old.Approval != d.New.Approval {
		why = append(why, fmt.Sprintf("the approval mode is %s in the old tree and %s in the new tree", approvalOf(d.Old), approvalOf(d.New)))
	}
	if d.Old.Demand != d.New.Demand {
		why = append(why, fmt.Sprintf("the policy: %s in the old tree and %s in the new tree", demandOf(d.Old), demandOf(d.New)))
	}
	return why
}

func demandOf(w Way) string {
	if w.Demand == "" {
		return "no demand"
	}
	return w.Demand
}

func named(driver string) string {
	if driver == "" {
		return "nobody"
	}
	return driver
}

func approvalOf(w Way) string {
	if w.Approval == "" {
		return "unset"
	}
	return string(w.Approval)
}

func chosenRule(d Decision) string {
	for _, n := range d.Trace {
		if n.Chosen && n.Via == "" {
			return fmt.Sprintf("%s, line %d: %s", label(n.Path, n.Name), n.Line, n.because())
		}
	}
	return "no rule"
}

// passedOver explains why a decision did not take the other's route.
func passedOver(who string, d, other Decision) []string {
	if other.Route == nil || d.Route != nil && d.Route.Via == other.Route.Via {
		return nil
	}
	var why []string
	for _, n := range d.Trace {
		if n.Via == other.Route.Via && !n.Chosen {
			why = append(why, fmt.Sprintf("%s skips %s via %s, line %d: %s", who, n.Path, n.Via, n.Line, n.because()))
		}
	}
	if len(why) == 0 && d.Route != nil {
		why = append(why, fmt.Sprintf("%s has %s open before any route via %s", who, d.Route.Via, other.Route.Via))
	}
	return why
}

func (n Node) because() string {
	if n.Value == "" {
		return n.Reason
	}
	return n.Reason + ": " + strings.Join(strings.Fields(n.When), " ")
}

// moves maps the routes of an old list to those of the new list: the first route
// via a driver to the first route via that driver, and so on.
type moves map[int]int

func movedRoutes(old, changed []route) moves {
	m := moves{}
	taken := make([]bool, len(changed))
	for i, from := range old {
		to := slices.IndexFunc(changed, func(r route) bool { return r.Via == from.Via && !taken[r.Index] })
		if to >= 0 {
			m[i], taken[to] = to, true
		}
	}
	return m
}

// translate gives the tried routes their indexes in the new tree. A route that
// the new tree lacks remains a fact for conditions and closes no route.
func (m moves) translate(previous []PreviousFacts) []PreviousFacts {
	var out []PreviousFacts
	for _, p := range previous {
		to, ok := m[p.Route]
		if !ok {
			to = -1
		}
		p.Route = to
		out = append(out, p)
	}
	return out
}

// routesOf returns the list that the decision chose from.
func (t *Tree) routesOf(d Decision) []route {
	for i := range t.rules {
		if label(t.rules[i].path, t.rules[i].name) == d.Rule {
			return t.rules[i].evidence
		}
	}
	for _, in := range t.inputs {
		if in.path == d.Rule {
			return in.routes
		}
	}
	return nil
}
