package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxRecord limits the stored facts of one decision, in bytes.
const maxRecord = 16 << 10

// Record holds the facts of one decision, stored with the run. They suffice to
// repeat the decision with the same tree. Because records are stored, fields are
// only added to the JSON form.
type Record struct {
	Kind string `json:"kind"` // of the input
	Tree string `json:"tree"` // Tree.Digest
	Facts
	// LeftOut names the free-form keys whose values are not kept because no
	// condition of the tree reads them: by path, such as "solution.params".
	LeftOut map[string][]string `json:"left_out,omitempty"`
}

// freeForm lists the paths of facts with undeclared keys.
var freeForm = map[string]func(*Facts) *map[string]any{
	"challenge.params":    func(f *Facts) *map[string]any { return &f.Challenge.Params },
	"client.capabilities": func(f *Facts) *map[string]any { return &f.Client.Capabilities },
	"run.input":           func(f *Facts) *map[string]any { return &f.Run.Input },
	"solution.params":     func(f *Facts) *map[string]any { return &f.Solution.Params },
}

// Record encodes the facts given to Decide. Of free-form facts it keeps the
// values that a condition of the tree mentions or a route needs, and only the
// keys of all others: explanations do not contain submitted values. It returns
// nil if the result is still too large.
func (t *Tree) Record(kind string, f Facts) (json.RawMessage, error) {
	for _, keep := range []mentioned{t.mentioned, nil} {
		r := Record{Kind: kind, Tree: t.digest, Facts: f}
		r.Protocol = t.mentioned.ofProtocol(f.Protocol)
		if !t.ReadsCaller() {
			r.Caller = CallerFacts{} // the record names nobody without need
		}
		for path, at := range freeForm {
			r.reduce(path, at, keep)
		}
		b, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode the facts of a decision: %w", err)
		}
		if len(b) <= maxRecord {
			return b, nil
		}
	}
	return nil, nil
}

// mentioned holds the free-form keys that conditions read, such as
// "solution.params.cmd", or "solution.params" if they read all of them.
type mentioned map[string]bool

func (m mentioned) has(path, key string) bool { return m[path] || m[path+"."+key] }

func mentionedBy(conditions ...*condition) mentioned {
	m := mentioned{}
	for _, c := range conditions {
		for _, looked := range c.looksAt {
			m.add(looked)
		}
	}
	return m
}

// ofProtocol leaves out what names the protocol, which the run says, unless a condition reads
// one of the facts about it.
func (m mentioned) ofProtocol(p ProtocolFacts) ProtocolFacts {
	if m["protocol"] {
		return p
	}
	return ProtocolFacts{Space: p.Space, Digest: p.Digest}
}

func (m mentioned) add(looked factPath) {
	if looked[0] == "protocol" || looked[0] == "caller" {
		m[looked[0]] = true
	}
	if len(looked) > 2 {
		looked = looked[:3]
		m[looked.String()] = true
		return
	}
	for path := range freeForm {
		if above := looked.String(); path == above || strings.HasPrefix(path, above+".") {
			m[path] = true
		}
	}
}

// addNeeds adds the declared capabilities that routes need, as far as they have no
// typed fact.
func (m mentioned) addNeeds(routes map[string]*route) {
	for _, r := range routes {
		for _, need := range r.needs {
			if key, ok := strings.CutPrefix(need, "/"); ok {
				key, _, _ = strings.Cut(key, "/")
				m["client.capabilities."+key] = true
			}
		}
	}
}

// ReadsCaller reports whether a condition reads who calls.
func (t *Tree) ReadsCaller() bool { return t.mentioned["caller"] }

func (t *Tree) conditions() []*condition {
	var all []*condition
	add := func(c *condition) {
		if c != nil {
			all = append(all, c)
		}
	}
	for i := range t.rules {
		add(t.rules[i].when)
		for j := range t.rules[i].evidence {
			add(t.rules[i].evidence[j].when)
		}
	}
	for _, in := range t.inputs {
		for j := range in.routes {
			add(in.routes[j].when)
		}
	}
	return all
}

func (r *Record) reduce(path string, at func(*Facts) *map[string]any, keep mentioned) {
	m := at(&r.Facts)
	var kept map[string]any
	for _, key := range slices.Sorted(maps.Keys(*m)) {
		if keep.has(path, key) {
			if kept == nil {
				kept = map[string]any{}
			}
			kept[key] = (*m)[key]
			continue
		}
		if r.LeftOut == nil {
			r.LeftOut = map[string][]string{}
		}
		r.LeftOut[path] = append(r.LeftOut[path], key)
	}
	*m = kept
}

// ReadRecord reads what Tree.Record wrote.
func ReadRecord(raw json.RawMessage) (Record, error) {
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, fmt.Errorf("read the facts of a decision: %w", err)
	}
	return r, nil
}
