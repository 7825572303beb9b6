package decision

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Graph returns a Mermaid flowchart of the tree. An arrow between two routes is
// taken if the first is closed or gives no answer.
func (t *Tree) Graph() string {
	g := graph{}
	g.line("flowchart TD")
	g.line(`  start(["a step needs evidence"])`)
	from, edge := "start", "-->"
	for i, r := range t.rules {
		id := fmt.Sprintf("c%d", i)
		g.line(`  %s{"%s"}`, id, r.caption())
		g.line("  %s %s %s", from, edge, id)
		if r.use != "" || r.approval != "" {
			g.line(`  %s -->|yes| %su["%s"]`, id, id, r.effect())
			g.routes(id, id+"u", "-->", r.evidence)
		} else {
			g.routes(id, id, "-->|yes|", r.evidence)
		}
		from, edge = id, "-->|no|"
	}
	for i, kind := range slices.Sorted(maps.Keys(t.inputs)) {
		id := fmt.Sprintf("i%d", i)
		g.line(`  %s(["a step needs %s"])`, id, escapeMermaid(kind))
		g.routes(id, id, "-->", t.inputs[kind].routes)
	}
	for i := range t.policy {
		e := &t.policy[i]
		parts := []string{label(e.path, e.name), e.demand.words()}
		if e.when != nil {
			parts = append(parts, "when "+e.when.source)
		}
		g.line(`  p%d["%s"]`, i, caption(parts))
	}
	return g.String()
}

type graph struct{ strings.Builder }

func (g *graph) line(format string, args ...any) { fmt.Fprintf(g, format+"\n", args...) }

func (g *graph) routes(prefix, from, edge string, routes []route) {
	for i, r := range routes {
		id := fmt.Sprintf("%sr%d", prefix, i)
		g.line(`  %s["%s"]`, id, r.caption())
		g.line("  %s %s %s", from, edge, id)
		from, edge = id, "-.->|else|"
	}
}

func (r *rule) caption() string {
	var parts []string
	if r.name != "" {
		parts = append(parts, r.name)
	}
	if r.match.challengeType != nil {
		parts = append(parts, "type is "+*r.match.challengeType)
	}
	if r.match.name != nil {
		parts = append(parts, "name is "+*r.match.name)
	}
	if r.when != nil {
		parts = append(parts, r.when.source)
	}
	if r.matchesAll() {
		parts = append(parts, "every challenge")
	}
	return caption(parts)
}

func (r *rule) effect() string {
	var parts []string
	if r.use != "" {
		parts = append(parts, "judged by "+r.use)
	}
	if r.approval != "" {
		parts = append(parts, "approval "+string(r.approval))
	}
	return caption(parts)
}

func (r *route) caption() string {
	parts := []string{"via " + r.Via}
	if r.When != "" {
		parts = append(parts, "when "+r.When)
	}
	if len(r.needs) > 0 {
		parts = append(parts, "needs "+strings.Join(r.needs, ", "))
	}
	if setting := r.gate.setting(); setting != "" {
		parts = append(parts, "only with "+setting)
	}
	if r.Approval != "" {
		parts = append(parts, "approval "+string(r.Approval))
	}
	return caption(parts)
}

// caption joins the parts, one a line, for a quoted Mermaid label.
func caption(parts []string) string {
	for i, p := range parts {
		parts[i] = escapeMermaid(p)
	}
	return strings.Join(parts, "<br/>")
}

// escapeMermaid uses Mermaid's own entities: "#" in place of HTML's "&".
func escapeMermaid(s string) string {
	return strings.NewReplacer(
		"#", "#35;", "&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "\n", " ",
	).Replace(s)
}
