// Package decision is the decision tree: compiled from YAML with CEL
// conditions, it turns facts about a step and its client into the challenge
// driver that judges the step and the route by which an input is obtained, and
// explains why. It is pure: it starts no driver and asks no questions.
package decision

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"cel.dev/cel-go/common/types"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

//go:embed default.yaml
var defaultYAML []byte

//go:embed schema.json
var schemaJSON []byte

// Default is the tree for configurations without one.
func Default() Source { return Source{Name: "default.yaml", YAML: bytes.Clone(defaultYAML)} }

// Schema is the JSON Schema of a tree, for editors. Unlike Compile it checks
// neither drivers nor conditions.
func Schema() json.RawMessage { return bytes.Clone(schemaJSON) }

// Source is the text of a tree.
type Source struct {
	Name string // the file, for errors
	YAML []byte
}

// Tree is a compiled decision tree. It never changes; all methods may be
// called concurrently.
type Tree struct {
	digest          string
	missingType     string
	noChallengeType string
	rules           []rule
	inputs          map[string]inputRule
	reactions       map[Outcome]reaction
	ofDrivers       map[string]map[Outcome]reaction // by driver; what is left out is of reactions
	routes          map[string]*route               // by path
	drivers         map[string]driver.Descriptor
	handlers        map[string]string // challenge type to driver, where a rule names none
	adapter         types.Adapter
	mentioned       mentioned // by any of the conditions
}

// rule is an entry of `challenges`.
type rule struct {
	path, name string
	line       int
	match      match
	when       *condition
	use        string
	evidence   []route
	broken     bool // what it matches could not be read; only while loading
}

// match holds the exact values that a rule requires; nil matches any value.
type match struct{ challengeType, name *string }

// inputRule is an entry of `inputs`.
type inputRule struct {
	path   string
	line   int
	routes []route
}

type route struct {
	Route
	when  *condition
	needs []string
	// reactions of this route; its driver's apply to the other outcomes.
	reactions map[Outcome]reaction
	// partial: its driver serves some requests only, even if the client has all capabilities.
	partial bool
	// ways in which its driver answers approvals; empty for other kinds of input.
	ways   []string
	broken bool // its driver is not known; only while loading
	// absent says why an optional route is never open. It is empty if its driver exists.
	absent string
}

// Route is one way to obtain an input.
type Route struct {
	Index int    `json:"index"` // in its list; PreviousFacts.Route
	Via   string `json:"via"`   // capability driver
	// Human: the driver's answers come from a person (driver.FeatureHuman).
	Human bool   `json:"human,omitempty"`
	When  string `json:"when,omitempty"`
	// Approval is the mode that this route requires; it never weakens the step's own mode.
	Approval driver.ApprovalMode `json:"approval,omitempty"`
	// Retries limits how often this route is tried again after an invalid reply:
	// its own number, or else that of `on.invalid`.
	Retries int `json:"retries,omitempty"`
	// Timeout bounds one question. The default is the host's.
	Timeout time.Duration `json:"timeout,omitempty"`
	// CallTimeout bounds each call of the driver. The default is the driver's own.
	CallTimeout time.Duration `json:"call_timeout,omitempty"`
	Line        int           `json:"line"`
	// Path is the route's place in the tree, such as "inputs.approval[2]".
	Path string `json:"path,omitempty"`
}

// Decision is the result of the tree for one input of one step.
type Decision struct {
	// Rule is the rule that matched, such as "challenges[1]" or "inputs.approval",
	// followed by its name if it has one; empty if none is declared.
	Rule string `json:"rule,omitempty"`
	Line int    `json:"line,omitempty"`
	// Use is the challenge driver that judges the step, set for evidence only;
	// empty when no configured driver handles the type.
	Use string `json:"use,omitempty"`
	// Route is the first open route; nil if no route is open.
	Route *Route `json:"route,omitempty"`
	// Rules of the operator that hold for the step, with what each demands. The tree does not
	// know them: whoever keeps the decision adds them.
	Rules []string `json:"rules,omitempty"`
	Trace []Node   `json:"trace"`
}

// RouteAt returns the route at a place of the tree if its driver is via: in
// another tree the same place may hold a different route.
func (t *Tree) RouteAt(path, via string) (Route, bool) {
	r := t.routes[path]
	if r == nil || r.Via != via {
		return Route{}, false
	}
	return r.Route, true
}

// Digest is SHA-256 of the tree's text, in hex.
func (t *Tree) Digest() string { return t.digest }

// MissingType is the challenge type of a challenge that names none.
func (t *Tree) MissingType() string { return t.missingType }

// Types lists the challenge types that some driver handles.
func (t *Tree) Types() []string { return slices.Sorted(maps.Keys(t.handlers)) }

// Ways lists the ways of approving that the drivers of the tree declare, in order.
func (t *Tree) Ways() []string {
	var all []string
	for _, d := range t.drivers {
		all = append(all, d.AnswersBy...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ApprovedBy reports whether a route of the tree may be open for an approval that is given in
// one of the ways.
func (t *Tree) ApprovedBy(how []string) bool {
	in, ok := t.inputs[driver.KindApproval]
	return ok && slices.ContainsFunc(in.routes, func(r route) bool { return r.absent == "" && ApprovalFacts{How: how}.counts(r.ways) == "" })
}

// NoChallengeType is the challenge type shown for a step without a challenge.
func (t *Tree) NoChallengeType() string { return t.noChallengeType }

// Decide finds the rule and the route for an input of the given kind. For
// driver.KindEvidence the rules of `challenges` are tried, for any other kind
// the list of that name in `inputs`. Same facts, same decision.
func (t *Tree) Decide(kind string, f Facts) Decision {
	w := walk{bindings: bindings{facts: &f, adapter: t.adapter}}
	if kind != driver.KindEvidence {
		return t.decideInput(&w, kind)
	}
	for i := range t.rules {
		r := &t.rules[i]
		if !w.enter(r) {
			continue
		}
		d := Decision{Rule: label(r.path, r.name), Line: r.line}
		if d.Use = t.challengeDriver(r, f.Challenge.Type); d.Use == "" {
			w.note(fmt.Sprintf("no driver of this rule handles type %q", f.Challenge.Type))
		}
		d.Route = w.firstOpen(r.evidence)
		d.Trace = w.trace
		return d
	}
	return Decision{Trace: w.trace} // not reached: Compile demands a last rule that matches all
}

// EvidenceVia lists the capability drivers of the routes that may obtain the
// evidence of a challenge, whatever conditions say: a route that is never open
// for it may be among them.
func (t *Tree) EvidenceVia(c ChallengeFacts) []string {
	var via []string
	for i := range t.rules {
		r := &t.rules[i]
		if r.match.mismatch(&c) != "" {
			continue
		}
		for k := range r.evidence {
			if r.evidence[k].absent == "" && !slices.Contains(via, r.evidence[k].Via) {
				via = append(via, r.evidence[k].Via)
			}
		}
		if r.when == nil {
			break // no later rule is reached
		}
	}
	return via
}

// ClosestType returns the one of Types that is closest to an unknown type;
// empty if none is close.
func (t *Tree) ClosestType(name string) string { return fields.Closest(name, t.Types()) }

// DecideVia is Decide where the input may come only through this driver. If the tree has no
// route through it, there is one without a condition.
func (t *Tree) DecideVia(kind, via string, f Facts) Decision {
	w := walk{bindings: bindings{facts: &f, adapter: t.adapter}}
	in := t.inputs[kind]
	var through []route
	for _, r := range in.routes {
		if r.Via == via {
			through = append(through, r)
		}
	}
	if len(through) == 0 {
		own := route{Route: Route{Index: len(in.routes), Via: via}}
		if d, ok := t.drivers[via]; ok {
			own.Human, own.needs = d.Has(driver.FeatureHuman), d.Needs
		} else {
			own.absent = fmt.Sprintf("no driver %q is configured", via)
		}
		through = append(through, own)
	}
	return Decision{Rule: in.path, Line: in.line, Route: w.firstOpen(through), Trace: w.trace}
}

func (t *Tree) decideInput(w *walk, kind string) Decision {
	in, ok := t.inputs[kind]
	if !ok {
		w.trace = append(w.trace, Node{Path: "inputs." + kind, Reason: "no routes are declared for this kind of input"})
		return Decision{Trace: w.trace}
	}
	w.trace = append(w.trace, Node{Path: in.path, Line: in.line, Chosen: true, Reason: "routes for this kind of input"})
	route := w.firstOpen(in.routes)
	return Decision{Rule: in.path, Line: in.line, Route: route, Trace: w.trace}
}

// challengeDriver returns the rule's driver for a type.
func (t *Tree) challengeDriver(r *rule, challengeType string) string {
	if r.use == "" {
		return t.handlers[challengeType]
	}
	if handles(t.drivers[r.use], challengeType) {
		return r.use
	}
	return ""
}

// label returns a rule's path, and its name if it has one.
func label(path, name string) string {
	if name == "" {
		return path
	}
	return path + " (" + name + ")"
}
