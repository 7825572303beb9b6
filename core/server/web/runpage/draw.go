package runpage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// trail is a drawn part of the tree.
type trail struct {
	Title string
	Root  string // the question that the tree was asked
	Nodes []node
	Note  string
	// Obtained: the last route that was tried gave an answer.
	Obtained bool
}

// Walked reports whether anything of it was looked at.
func (t trail) Walked() bool {
	return slices.ContainsFunc(t.Nodes, func(n node) bool { return n.Mark != markNone })
}

// node is a rule or a route in the drawing.
type node struct {
	Title, Place string
	Mark         string
	// Entered: the walk went into it. Through: it continued behind it.
	Entered, Through bool
	Badges           []badge
	When, Value      string
	Looked           []string
	Reason           string
	Nodes            []node
}

// Class is what the style sheet needs to know.
func (n node) Class() string {
	class := n.Mark
	if n.Entered {
		class += " entered"
	}
	if n.Through {
		class += " through"
	}
	return class
}

// draw draws what was walked for one input.
func (r Run) draw(group []archive.Decided) trail {
	last := group[len(group)-1]
	kind := kindOf(last)
	t := trail{Title: words(kind), Root: "the step needs " + words(kind), Obtained: last.Answered}
	walked := walkedBy(group)
	if last.Record != nil && last.Record.Tree == r.Tree.Digest {
		t.Nodes = r.outlined(kind, walked)
	} else {
		t.Nodes = traced(walked)
		t.Note = "Another tree than the one in use now decided this, so only what it looked at is drawn."
		if last.Record == nil {
			t.Note = "A version that kept less decided this, so only what it looked at is drawn."
		}
	}
	through(t.Nodes)
	return t
}

// walked is what was looked at, in order, with the way in which routes ended.
type walked struct {
	order []string // paths
	nodes map[string]decision.Node
	facts map[string]decision.Facts
	ended map[string]decision.Past
}

func walkedBy(group []archive.Decided) walked {
	w := walked{
		nodes: map[string]decision.Node{}, facts: map[string]decision.Facts{},
		ended: map[string]decision.Past{},
	}
	for _, d := range group {
		for _, n := range d.Decision.Trace {
			if _, known := w.nodes[n.Path]; !known {
				w.order = append(w.order, n.Path)
			}
			if _, tried := w.ended[n.Path]; tried {
				continue // how it was when it was tried tells more
			}
			w.nodes[n.Path] = n
			if d.Record != nil {
				w.facts[n.Path] = d.Record.Facts
			}
			if n.Chosen && n.Via != "" {
				w.ended[n.Path] = d.Past
			}
		}
	}
	return w
}

// outlined draws the whole part of the tree that is for the kind of input.
func (r Run) outlined(kind string, w walked) []node {
	var out []node
	if kind != driver.KindEvidence {
		for _, in := range r.Tree.Inputs {
			if in.Kind == kind {
				return w.routes(in.Routes)
			}
		}
		return traced(w)
	}
	for _, rule := range r.Tree.Rules {
		n := w.node(rule.Path, ruleNode(rule))
		if n.Entered {
			n.Nodes = w.routes(rule.Routes)
		} else if n.Mark == markNone {
			n.Reason = "not reached"
		}
		out = append(out, n)
	}
	return out
}

func (w walked) routes(list []decision.RouteOutline) []node {
	var out []node
	for _, r := range list {
		out = append(out, w.node(r.Path, routeNode(r)))
	}
	through(out)
	return out
}

func ruleNode(r decision.RuleOutline) node {
	n := node{Title: r.Matches, Place: place(r.Path, r.Line), When: r.When}
	if r.Name != "" {
		n.Title = r.Name
		n.Badges = append(n.Badges, badge{markPass, r.Matches})
	}
	if r.Use != "" {
		n.Badges = append(n.Badges, badge{markPass, "judged by " + r.Use})
	}
	return n
}

func routeNode(r decision.RouteOutline) node {
	n := node{Title: "via " + r.Via, Place: place(r.Path, r.Line), When: r.When}
	if r.Human {
		n.Badges = append(n.Badges, badge{markPass, "a person"})
	}
	if r.Approval != "" {
		n.Badges = append(n.Badges, badge{markPass, "approval " + string(r.Approval)})
	}
	if len(r.Needs) > 0 {
		n.Badges = append(n.Badges, badge{markPass, "needs " + strings.Join(r.Needs, ", ")})
	}
	if len(r.Ways) > 0 {
		n.Badges = append(n.Badges, badge{markPass, "by " + strings.Join(r.Ways, " or ")})
	}
	return n
}

func place(path string, line int) string {
	if line == 0 {
		return path
	}
	return fmt.Sprintf("%s, line %d", path, line)
}

// node fills in what the walk says of a rule or route.
func (w walked) node(path string, n node) node {
	n.Mark = markNone
	seen, ok := w.nodes[path]
	if !ok {
		return n
	}
	n.Mark, n.Entered, n.Reason = markPass, seen.Chosen, seen.Reason
	if seen.When != "" {
		n.When, n.Value = seen.When, seen.Value
		if facts, ok := w.facts[path]; ok && seen.Value != "" {
			n.Looked = lookedAt(seen.When, facts)
		}
	}
	if seen.Error != "" {
		n.Reason += ": " + seen.Error
	}
	switch p, tried := w.ended[path]; {
	case tried:
		mark, how := outcome(p)
		n.Mark, n.Entered = mark, true
		n.Badges = append([]badge{{mark, how}}, n.Badges...)
	case seen.Chosen:
		n.Mark = markTake
	}
	return n
}

// lookedAt lists what a condition looked at; nothing where it is a fact itself,
// whose value is that of the condition.
func lookedAt(condition string, f decision.Facts) []string {
	var out []string
	for _, l := range decision.LookedAt(condition, f) {
		if l.Path != condition {
			out = append(out, l.Path+" = "+string(l.Value))
		}
	}
	return out
}

// traced draws what was looked at without knowing the rest of the tree.
func traced(w walked) []node {
	var out []node
	for _, path := range w.order {
		seen := w.nodes[path]
		if seen.Via == "" {
			title := seen.Name
			if title == "" {
				title = path
			}
			out = append(out, w.node(path, node{Title: title, Place: place(path, seen.Line)}))
			continue
		}
		n := w.node(path, node{Title: "via " + seen.Via, Place: place(path, seen.Line)})
		if len(out) == 0 {
			out = append(out, node{Title: "routes", Mark: markTake, Entered: true})
		}
		at := &out[len(out)-1]
		at.Nodes = append(at.Nodes, n)
	}
	for i := range out {
		through(out[i].Nodes)
	}
	return out
}

// through marks what the walk passed on its way to a later one.
func through(nodes []node) {
	reached := false
	for i := len(nodes) - 1; i >= 0; i-- {
		nodes[i].Through = reached
		reached = reached || nodes[i].Mark != markNone
	}
}

// drawTree draws the tree with all that the run made of it.
func (r Run) drawTree() []trail {
	counts := map[string]*tally{}
	for _, d := range r.Decisions {
		if d.Record == nil || d.Record.Tree != r.Tree.Digest {
			continue
		}
		for _, n := range d.Decision.Trace {
			if counts[n.Path] == nil {
				counts[n.Path] = &tally{}
			}
			counts[n.Path].count(n, d)
		}
	}
	evidence := trail{Title: "evidence", Root: "a step needs evidence"}
	for _, rule := range r.Tree.Rules {
		n := counts[rule.Path].mark(ruleNode(rule))
		if n.Entered {
			n.Mark = markTake // it is its routes that give answers
		}
		for _, route := range rule.Routes {
			n.Nodes = append(n.Nodes, counts[route.Path].mark(routeNode(route)))
		}
		through(n.Nodes)
		evidence.Nodes = append(evidence.Nodes, n)
	}
	through(evidence.Nodes)
	out := []trail{evidence}
	for _, in := range r.Tree.Inputs {
		t := trail{Title: words(in.Kind), Root: "a step needs " + words(in.Kind)}
		for _, route := range in.Routes {
			t.Nodes = append(t.Nodes, counts[route.Path].mark(routeNode(route)))
		}
		through(t.Nodes)
		out = append(out, t)
	}
	return out
}

// tally is what a run made of a rule or route.
type tally struct{ looked, chosen, answered int }

func (t *tally) count(n decision.Node, d archive.Decided) {
	t.looked++
	if n.Chosen {
		t.chosen++
		if d.Answered {
			t.answered++
		}
	}
}

func (t *tally) mark(n node) node {
	switch {
	case t == nil:
		n.Mark = markNone
	case t.chosen == 0:
		n.Mark = markPass
		n.Badges = append([]badge{{markPass, "passed over"}}, n.Badges...)
	default:
		n.Mark, n.Entered = markGood, true
		if t.answered == 0 {
			n.Mark = markWarn
		}
		n.Badges = append([]badge{{markTake, fmt.Sprintf("%d×", t.chosen)}}, n.Badges...)
	}
	return n
}
