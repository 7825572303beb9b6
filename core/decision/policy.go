package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// policyEntry is an entry of `policy`: what the operator demands of the evidence of
// some steps, beyond what their protocols demand.
type policyEntry struct {
	path, name string
	line       int
	when       *condition
	demand     Demand
}

// Demand limits which evidence of a step counts. The zero value takes any.
type Demand struct {
	// Provenances are those that count; nil means all. Empty but not nil means none, because
	// entries contradict each other or the step.
	Provenances []driver.Provenance `json:"provenances,omitzero"`
	// By names the entries that apply, with their lines.
	By []string `json:"by,omitempty"`
}

// Narrowed is the demand for evidence of which only these provenances count; nil
// takes any.
func (d Demand) Narrowed(only []driver.Provenance) Demand {
	return d.and(Demand{Provenances: only})
}

// Impossible reports whether no evidence meets the demand.
func (d Demand) Impossible() bool { return d.Provenances != nil && len(d.Provenances) == 0 }

// Counts reports whether evidence with the provenance counts.
func (d Demand) Counts(p driver.Provenance) bool {
	return d.Provenances == nil || slices.Contains(d.Provenances, p)
}

// and is what meets both demands.
func (d Demand) and(other Demand) Demand {
	switch {
	case d.Provenances == nil:
		d.Provenances = slices.Clone(other.Provenances)
	case other.Provenances != nil:
		both := make([]driver.Provenance, 0, len(d.Provenances))
		for _, p := range d.Provenances {
			if slices.Contains(other.Provenances, p) {
				both = append(both, p)
			}
		}
		d.Provenances = both
	}
	d.By = slices.Concat(d.By, other.By)
	return d
}

// words describe what the demand takes.
func (d Demand) words() string {
	if d.Provenances == nil {
		return ""
	}
	return "only " + joinWords(d.Provenances) + " counts"
}

func joinWords[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

// Demand is what the policy demands of the evidence of a step. An entry whose
// condition fails applies: a protocol must not escape a demand with a challenge that
// the condition cannot read.
func (t *Tree) Demand(f Facts) Demand {
	w := walk{bindings: bindings{facts: &f, adapter: t.adapter}}
	return t.demand(&w)
}

// DemandOfText is Demand as far as it is known of a protocol that is not run yet:
// entries about the run, the configuration or an acceptance are left out, and those
// about the protocol if its space is not known.
func (t *Tree) DemandOfText(f Facts) Demand {
	w := walk{bindings: bindings{facts: &f, adapter: t.adapter}}
	var d Demand
	for i := range t.policy {
		if e := &t.policy[i]; e.when.readsText(f) && w.applies(e) {
			d = d.and(e.demand)
		}
	}
	return d
}

func (t *Tree) demand(w *walk) Demand {
	var d Demand
	for i := range t.policy {
		if w.applies(&t.policy[i]) {
			d = d.and(t.policy[i].demand)
		}
	}
	return d
}

// ReadsDigest reports whether an entry of the policy reads protocol.digest.
func (t *Tree) ReadsDigest() bool {
	return slices.ContainsFunc(t.policy, func(e policyEntry) bool { return e.when.reads("protocol", "digest") })
}

// applies reports whether the yamldoc.Entry applies, and adds it to the trace.
func (w *walk) applies(e *policyEntry) bool {
	n := Node{Path: e.path, Name: e.name, Line: e.line}
	holds, why := w.test(e.when, &n)
	if n.Error != "" {
		holds, why = true, "the condition failed, so the demand applies"
	}
	if n.Chosen = holds; holds {
		why += "; " + e.demand.words()
	}
	n.Reason = why
	w.trace = append(w.trace, n)
	return holds
}

// reads reports whether the condition reads a fact or all facts above it.
func (c *condition) reads(path ...string) bool {
	return c != nil && slices.ContainsFunc(c.looksAt, func(looked factPath) bool {
		short := min(len(looked), len(path))
		return slices.Equal(looked[:short], path[:short])
	})
}

// readsText reports whether the text of a protocol is all that the condition reads.
func (c *condition) readsText(f Facts) bool {
	return !c.reads("run") && !c.reads("config") && !c.reads("step", "accepted") && (f.Protocol.Space != "" || !c.reads("protocol"))
}

// The facts that no policy reads, because the caller chooses them.
var chosenByCaller = []string{"client", "solution", "previous"}

// readPolicy reads `policy`.
func (c *compiler) readPolicy(n ast.Node) {
	for i, item := range c.doc.Sequence(n, "policy", "policy") {
		path, before := fmt.Sprintf("policy[%d]", i), c.doc.Problems()
		fields, ok := c.doc.Mapping(item, path, "an entry of policy", "name", "when", "evidence_from")
		if !ok {
			continue
		}
		e := policyEntry{path: path, name: c.doc.Text(fields, "name", path)}
		e.line, _ = yamldoc.Position(item)
		named := label(path, e.name)
		e.when = c.condition(fields, named)
		for _, fact := range chosenByCaller {
			if e.when.reads(fact) {
				c.doc.Problem(fields["when"].Value, named, "when: a policy cannot read %s, which the caller chooses; it can read challenge, step, protocol, run and config", fact)
			}
		}
		_, from := fields["evidence_from"]
		if !from && c.doc.Problems() == before {
			c.doc.Problem(item, named, "it demands nothing: give evidence_from")
		}
		if from {
			e.demand.Provenances = evidenceFrom(&c.doc, fields["evidence_from"].Value, named)
		}
		e.demand.By = []string{fmt.Sprintf("%s, line %d", named, e.line)}
		c.tree.policy = append(c.tree.policy, e)
	}
}

// evidenceFrom reads one of the words of challenges, or a list of provenances.
func evidenceFrom(d *yamldoc.Document, n ast.Node, named string) []driver.Provenance {
	allowed := fmt.Sprintf("%s or %s, or a list of %s", protocol.FromPerson, protocol.FromServer, joinWords(driver.Provenances()))
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		word, _ := yamldoc.TextOf(n)
		if only := protocol.EvidenceFrom(word).Provenances(); only != nil {
			return only
		}
		if word != string(protocol.FromAnyone) {
			d.Problem(n, named, "evidence_from must be %s, %s, not %s", protocol.FromAnyone, allowed, yamldoc.Shown(n))
		}
		return nil
	}
	if len(list.Values) == 0 {
		d.Problem(n, named, "evidence_from is an empty list, so nothing would count: it must be %s", allowed)
	}
	var only []driver.Provenance
	for _, item := range list.Values {
		word, _ := yamldoc.TextOf(item)
		if !slices.Contains(driver.Provenances(), driver.Provenance(word)) {
			d.Problem(item, named, "evidence_from: %s is not a provenance; they are %s", yamldoc.Shown(item), joinWords(driver.Provenances()))
			continue
		}
		only = append(only, driver.Provenance(word))
	}
	return only
}
