package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// readRoutes reads the routes for one kind of input. ruleName is the name of
// their rule, if it has one.
func (c *compiler) readRoutes(n ast.Node, path, ruleName, kind string) []route {
	items := c.doc.Sequence(n, path, "routes")
	if len(items) == 0 {
		if _, ok := n.(*ast.SequenceNode); ok {
			c.doc.Problem(n, label(path, ruleName), "there is no route")
		}
		return nil
	}
	var routes []route
	final := -1 // the route behind which none is reached
	for i, item := range items {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		if final >= 0 {
			c.doc.Problem(item, label(itemPath, ruleName), "never reached: %s[%d] (line %d) has no condition and serves any client",
				path, final, routes[final].Line)
		}
		r := c.readRoute(item, itemPath, ruleName, kind)
		r.Index = i
		routes = append(routes, r)
		if final < 0 && r.servesAll() {
			final = i
		}
	}
	for i := range routes {
		c.tree.routes[routes[i].Path] = &routes[i]
	}
	return routes
}

// servesAll reports whether the route is open for every client: no condition or
// missing capability closes it, and it answers no approval, whose ways others narrow.
func (r *route) servesAll() bool {
	return !r.broken && r.absent == "" && r.When == "" && len(r.needs) == 0 && !r.partial && len(r.ways) == 0
}

func (c *compiler) readRoute(n ast.Node, path, ruleName, kind string) route {
	named := label(path, ruleName)
	r := route{broken: true}
	r.Path = path
	r.Line, _ = yamldoc.Position(n)
	keys := []string{"via", "when", "retries", "timeout", "call_timeout", "on", "optional"}
	if kind == driver.KindEvidence {
		keys = append(keys, "approval")
	}
	fields, ok := c.doc.Mapping(n, named, "a route", keys...)
	if !ok {
		return r
	}
	r.when = c.condition(fields, named)
	if r.when != nil {
		r.When = r.when.source
	}
	r.Approval = c.approvalMode(fields, "approval", named)
	if e, ok := fields["timeout"]; ok {
		r.Timeout = c.doc.Duration(e, named, maxTimeout)
	}
	if e, ok := fields["call_timeout"]; ok {
		r.CallTimeout = c.doc.Duration(e, named, maxCallTimeout)
	}
	if e, ok := fields["on"]; ok {
		r.reactions = map[Outcome]reaction{}
		c.readReactions(e.Value, path+".on", r.reactions)
	}
	e, ok := fields["via"]
	if !ok {
		c.doc.Problem(n, named, "via is missing: name the capability driver that obtains the input")
		return r
	}
	optional := c.optional(fields, named)
	if r.Via = c.doc.Text(fields, "via", named); r.Via != "" && optional {
		r.absent = c.absent(r.Via, kind)
	}
	if r.broken = r.absent == ""; r.broken && r.Via != "" {
		c.bindRoute(&r, e.Value, named, kind)
	}
	r.Retries = actionOf(Invalid, r.Human, r.reactions, c.tree.ofDrivers[r.Via], c.tree.reactions).Retries
	if e, ok := fields["retries"]; ok {
		r.Retries = c.doc.Count(e, named, maxRetries)
	}
	return r
}

// optional reads `optional`.
func (c *compiler) optional(fields map[string]yamldoc.Entry, named string) bool {
	e, ok := fields["optional"]
	if !ok {
		return false
	}
	b, ok := e.Value.(*ast.BoolNode)
	if !ok {
		c.doc.Problem(e.Value, named, "optional must be true or false, this is %s", yamldoc.KindOf(e.Value))
		return false
	}
	return b.Value
}

// absent says why the driver of an optional route cannot be taken, or returns "".
func (c *compiler) absent(via, kind string) string {
	switch d, ok := c.tree.drivers[via]; {
	case !ok:
		return fmt.Sprintf("no driver %q is configured", via)
	case d.Role == driver.RoleCapability && !handles(d, kind):
		return fmt.Sprintf("driver %q does not obtain %s", via, kind)
	}
	return ""
}

// bindRoute copies the route's requirements from the driver's descriptor.
func (c *compiler) bindRoute(r *route, n ast.Node, named, kind string) {
	d, ok := c.driverOf(n, named, "via", r.Via, driver.RoleCapability)
	if !ok {
		return
	}
	if !handles(d, kind) {
		c.doc.Problem(n, named, "via: driver %q does not obtain %s, it handles %s", r.Via, kind, strings.Join(d.Handles, ", "))
	}
	r.broken = false
	r.needs, r.partial = d.Needs, d.Has(driver.FeaturePartial)
	r.Human = d.Has(driver.FeatureHuman)
	if kind != driver.KindApproval {
		return
	}
	if r.ways = d.AnswersBy; len(r.ways) == 0 {
		c.doc.Problem(n, named, "via: driver %q cannot answer an approval: it names no way in which it does (answers_by)", r.Via)
	}
}

// checkLastRoute reports evidence that some clients have no route for.
func (c *compiler) checkLastRoute(routes []route, m match, named string) {
	if len(routes) == 0 {
		return
	}
	last := &routes[len(routes)-1]
	switch {
	case last.broken || last.servesAll():
	case last.absent != "":
		c.doc.ProblemAt(last.Line, 1, named, fmt.Sprintf("%s: the last route of evidence must not be optional, and %s", last.Path, last.absent))
	case last.When != "":
		c.doc.ProblemAt(last.Line, 1, named, fmt.Sprintf(
			"%s: the last route of evidence must have no condition, or a step may be left without one", last.Path))
	case last.partial:
		c.doc.ProblemAt(last.Line, 1, named, fmt.Sprintf(
			"%s: the last route of evidence must serve any client, but driver %q says that it cannot always (feature %s)",
			last.Path, last.Via, driver.FeaturePartial))
	default:
		hint := ""
		if last.Human {
			hint = fmt.Sprintf("; to take only a person's answer, end the list with {via: agent} and add {%sevidence: person} to rules in kairos.yaml", m.asRule())
		}
		c.doc.ProblemAt(last.Line, 1, named, fmt.Sprintf("%s: the last route of evidence must serve any client, but driver %q needs %s%s",
			last.Path, last.Via, strings.Join(last.needs, ", "), hint))
	}
}

// condition reads `when`. It replaces a broken condition by another condition,
// so that its rule or route does not also count as unconditional.
func (c *compiler) condition(fields map[string]yamldoc.Entry, named string) *condition {
	return readCondition(&c.doc, fields, named)
}

func readCondition(doc *yamldoc.Document, fields map[string]yamldoc.Entry, named string) *condition {
	e, ok := fields["when"]
	if !ok {
		return nil
	}
	if b, ok := e.Value.(*ast.BoolNode); ok && b.Value {
		return nil
	}
	broken := &condition{source: "?"}
	source, ok := yamldoc.TextOf(e.Value)
	if !ok {
		doc.Problem(e.Value, named, "when must be a condition in quotes, this is %s", yamldoc.KindOf(e.Value))
		return broken
	}
	when, errs := compileCondition(source)
	if len(errs) == 0 {
		return when
	}
	line, column := yamldoc.Position(e.Value)
	for _, err := range errs {
		message := fmt.Sprintf("when: %s (at character %d of %s)", err.message, err.column+1, quoted(source))
		if _, block := e.Value.(*ast.LiteralNode); block {
			doc.ProblemAt(line+err.line, 1, named, message)
			continue
		}
		doc.ProblemAt(line, column, named, message)
	}
	return broken
}

// quoted returns an expression for an error message: on one line and bounded.
func quoted(source string) string {
	const limit = 120
	s := []rune(strings.Join(strings.Fields(source), " "))
	if len(s) > limit {
		s = append(s[:limit], '…')
	}
	return "`" + string(s) + "`"
}

func (c *compiler) approvalMode(fields map[string]yamldoc.Entry, key, named string) driver.ApprovalMode {
	e, ok := fields[key]
	if !ok {
		return ""
	}
	mode := driver.ApprovalMode(c.doc.Text(fields, key, named))
	if mode != "" && mode != driver.ApprovalAuto && mode != driver.ApprovalUser {
		c.doc.Problem(e.Value, named, "%s must be %s or %s, not %q", key, driver.ApprovalAuto, driver.ApprovalUser, mode)
		return ""
	}
	return mode
}

// readReactions reads an `on`.
func (c *compiler) readReactions(n ast.Node, named string, into map[Outcome]reaction) {
	var known []string
	for o := range outcomes {
		known = append(known, string(o))
	}
	slices.Sort(known)
	fields, _ := c.doc.Mapping(n, named, named, known...)
	for name, e := range fields {
		into[Outcome(name)] = c.readReaction(Outcome(name), e, named+"."+name)
	}
}

func (c *compiler) readReaction(o Outcome, e yamldoc.Entry, named string) reaction {
	if yamldoc.KindOf(e.Value) != "a mapping" {
		return always(c.readAction(o, e.Value, named))
	}
	fields, _ := c.doc.Mapping(e.Value, named, named, "person", "else", "retry", "then")
	person, split := fields["person"]
	other, split2 := fields["else"]
	switch {
	case !split && !split2:
		return always(c.readAction(o, e.Value, named))
	case !split || !split2 || len(fields) > 2:
		c.doc.Problem(e.Value, named, "write either {person: ..., else: ...} or {retry: N, then: ...}")
		return reaction{}
	}
	return reaction{
		person: c.readAction(o, person.Value, named+".person"),
		other:  c.readAction(o, other.Value, named+".else"),
	}
}

// readAction reads `next`, `stop`, `again` or {retry: N, then: next}.
func (c *compiler) readAction(o Outcome, n ast.Node, named string) Action {
	if kind, ok := yamldoc.TextOf(n); ok {
		a := Action{Kind: ActionKind(kind)}
		if a.Kind == Retry {
			c.doc.Problem(n, named, "write {retry: N, then: next}")
		} else {
			c.checkAction(o, a.Kind, n, named)
		}
		return a
	}
	before := c.doc.Problems()
	fields, _ := c.doc.Mapping(n, named, named, "retry", "then")
	retry, hasRetry := fields["retry"]
	then, hasThen := fields["then"]
	if !hasRetry || !hasThen {
		if c.doc.Problems() == before {
			c.doc.Problem(n, named, "write {retry: N, then: next}")
		}
		return Action{}
	}
	c.checkAction(o, Retry, n, named)
	a := Action{Kind: Retry, Retries: c.doc.Count(retry, named, maxRetries), Then: ActionKind(c.doc.Text(fields, "then", named))}
	if a.Then != "" && a.Then != Next && a.Then != Stop {
		c.doc.Problem(then.Value, named, "then must be %s or %s, not %q", Next, Stop, a.Then)
	}
	return a
}

func (c *compiler) checkAction(o Outcome, kind ActionKind, n ast.Node, named string) {
	allowed := outcomes[o]
	if slices.Contains(allowed, kind) {
		return
	}
	names := make([]string, len(allowed))
	for i, k := range allowed {
		names[i] = string(k)
	}
	c.doc.Problem(n, named, "%q cannot follow the outcome %s, allowed is %s", kind, o, strings.Join(names, ", "))
}
