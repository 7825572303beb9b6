package decision

import (
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Outline lists the rules and routes of a tree, for diagrams and reports. Paths
// are those of Node.
type Outline struct {
	Digest string
	Rules  []RuleOutline
	Inputs []InputOutline
}

// RuleOutline is an entry of `challenges`.
type RuleOutline struct {
	Path, Name string
	Line       int
	// Matches describes the challenges that match.
	Matches string
	When    string
	Use     string
	Routes  []RouteOutline
}

// InputOutline is an entry of `inputs`.
type InputOutline struct {
	Path, Kind string
	Line       int
	Routes     []RouteOutline
}

// RouteOutline is a route.
type RouteOutline struct {
	Route
	Path string
	// Needs are the capabilities without which the route is closed.
	Needs []string
	// Ways in which the route's driver answers an approval; empty for other kinds.
	Ways []string
}

// Outline of the tree.
func (t *Tree) Outline() Outline {
	o := Outline{Digest: t.digest}
	for i := range t.rules {
		r := &t.rules[i]
		out := RuleOutline{
			Path: r.path, Name: r.name, Line: r.line, Matches: r.match.words(), Use: r.use,
			Routes: outlines(r.evidence),
		}
		if r.when != nil {
			out.When = r.when.source
		}
		o.Rules = append(o.Rules, out)
	}
	for _, kind := range slices.Sorted(maps.Keys(t.inputs)) {
		in := t.inputs[kind]
		o.Inputs = append(o.Inputs, InputOutline{Path: in.path, Kind: kind, Line: in.line, Routes: outlines(in.routes)})
	}
	return o
}

func (m match) words() string {
	var parts []string
	if m.challengeType != nil {
		parts = append(parts, "type is "+*m.challengeType)
	}
	if m.name != nil {
		parts = append(parts, "name is "+*m.name)
	}
	if len(parts) == 0 {
		return "every challenge"
	}
	return strings.Join(parts, ", ")
}

func outlines(routes []route) []RouteOutline {
	out := make([]RouteOutline, len(routes))
	for i := range routes {
		r := &routes[i]
		out[i] = RouteOutline{Route: r.Route, Path: r.Path, Needs: r.needs, Ways: r.ways}
	}
	return out
}

// Kinds lists the kinds of input that the tree has routes for.
func (t *Tree) Kinds() []string {
	return append([]string{driver.KindEvidence}, slices.Sorted(maps.Keys(t.inputs))...)
}
