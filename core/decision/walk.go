package decision

import (
	"fmt"
	"io"
	"strings"
)

// Node is one rule or route that a decision evaluated. Walks are stored with
// runs, so fields are only added to the JSON form.
type Node struct {
	Path string `json:"path"` // "challenges[1]", "challenges[1].evidence[0]", "inputs.approval[2]"
	Name string `json:"name,omitempty"`
	Line int    `json:"line,omitempty"`
	Via  string `json:"via,omitempty"` // set for routes
	When string `json:"when,omitempty"`
	// Value is the result of the condition: "true", "false" or "error"; empty if
	// there is none or it was not evaluated.
	Value  string `json:"value,omitempty"`
	Error  string `json:"error,omitempty"` // of the condition
	Chosen bool   `json:"chosen,omitempty"`
	Reason string `json:"reason"` // why it was chosen or skipped
}

// The values of Node.Value.
const (
	valueTrue  = "true"
	valueFalse = "false"
	valueError = "error"
)

// walk traverses the tree for one decision.
type walk struct {
	bindings
	trace []Node
}

// enter reports whether the rule matches.
func (w *walk) enter(r *rule) bool {
	n := Node{Path: r.path, Name: r.name, Line: r.line}
	if n.Reason = r.match.mismatch(&w.facts.Challenge); n.Reason == "" {
		n.Chosen, n.Reason = w.test(r.when, &n)
	}
	if n.Chosen && r.when == nil {
		n.Reason = r.match.describe()
	}
	w.trace = append(w.trace, n)
	return n.Chosen
}

// note adds a remark to the last node.
func (w *walk) note(remark string) {
	last := &w.trace[len(w.trace)-1]
	last.Reason += "; " + remark
}

// firstOpen returns a copy of the first open route, or nil.
func (w *walk) firstOpen(routes []route) *Route {
	for i := range routes {
		r := &routes[i]
		n := Node{Path: r.Path, Line: r.Line, Via: r.Via}
		if n.Reason = w.blocked(r); n.Reason == "" {
			n.Chosen, n.Reason = w.test(r.when, &n)
		} else {
			n.When = r.When
		}
		w.trace = append(w.trace, n)
		if n.Chosen {
			chosen := r.Route
			return &chosen
		}
	}
	return nil
}

// test evaluates a condition, records its value and describes the result.
func (w *walk) test(c *condition, n *Node) (holds bool, reason string) {
	if c == nil {
		return true, "no condition"
	}
	n.When = c.source
	holds, err := c.holds(&w.bindings)
	switch {
	case err != nil:
		n.Value, n.Error = valueError, err.Error()
		return false, "the condition failed, so it does not hold"
	case holds:
		n.Value = valueTrue
		return true, "the condition holds"
	}
	n.Value = valueFalse
	return false, "the condition does not hold"
}

// blocked explains why a route is closed regardless of its condition; empty if
// it is not.
func (w *walk) blocked(r *route) string {
	if r.absent != "" {
		return r.absent
	}
	for _, p := range w.facts.Previous {
		// After a swap of the tree the same index may be a different route, so
		// the driver is compared too.
		if p.Route == r.Index && p.Outcome != "" && (p.Via == r.Via || p.Via == "") {
			return "already tried: " + string(p.Outcome)
		}
	}
	if len(r.ways) > 0 {
		if reason := w.facts.Approval.counts(r.ways); reason != "" {
			return reason
		}
	}
	for _, need := range r.needs {
		if reason := w.facts.lacks(need); reason != "" {
			return reason
		}
	}
	return ""
}

func (m match) mismatch(c *ChallengeFacts) string {
	if m.challengeType != nil && *m.challengeType != c.Type {
		return fmt.Sprintf("type is %q, not %q", c.Type, *m.challengeType)
	}
	if m.name != nil && *m.name != c.Name {
		return fmt.Sprintf("name is %q, not %q", c.Name, *m.name)
	}
	return ""
}

// asRule is the match as a rule of the operator has it, with a comma behind it.
func (m match) asRule() string {
	if m.challengeType == nil {
		return ""
	}
	return "type: " + *m.challengeType + ", "
}

func (m match) describe() string {
	if m.challengeType == nil && m.name == nil {
		return "matches every challenge"
	}
	return "matches"
}

// Explain prints the walk, one rule or route per line with the reason. It returns
// the writer's error.
func (d Decision) Explain(w io.Writer) error { return d.explain(w, nil) }

// Explain is Decision.Explain with the facts that the conditions read.
func (p Past) Explain(w io.Writer) error {
	if p.Record == nil {
		return p.Decision.explain(w, nil)
	}
	return p.Decision.explain(w, &p.Record.Facts)
}

func (d Decision) explain(w io.Writer, f *Facts) error {
	var b strings.Builder
	for _, rule := range d.Rules {
		fmt.Fprintf(&b, "+ %s\n", rule)
	}
	for _, n := range d.Trace {
		n.print(&b, f)
	}
	switch {
	case d.Route == nil:
		b.WriteString("=> no route is left\n")
	case d.Use != "":
		fmt.Fprintf(&b, "=> route %d via %s, judged by %s\n", d.Route.Index, d.Route.Via, d.Use)
	default:
		fmt.Fprintf(&b, "=> route %d via %s\n", d.Route.Index, d.Route.Via)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (n Node) print(b *strings.Builder, f *Facts) {
	mark := "-"
	if n.Chosen {
		mark = "+"
	}
	name := label(n.Path, n.Name)
	if n.Via != "" {
		mark = "  " + mark
		name += " via " + n.Via
	}
	fmt.Fprintf(b, "%s %s", mark, name)
	if n.Line > 0 {
		fmt.Fprintf(b, ", line %d", n.Line)
	}
	fmt.Fprintf(b, ": %s\n", n.Reason)
	if n.When != "" {
		fmt.Fprintf(b, "%*swhen: %s\n", len(mark)+5, "", strings.Join(strings.Fields(n.When), " "))
	}
	if f != nil && n.Value != "" {
		for _, looked := range LookedAt(n.When, *f) {
			fmt.Fprintf(b, "%*s%s is %s\n", len(mark)+7, "", looked.Path, looked.Value)
		}
	}
	if n.Error != "" {
		fmt.Fprintf(b, "%*serror: %s\n", len(mark)+5, "", n.Error)
	}
}
