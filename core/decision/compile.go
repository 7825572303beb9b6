package decision

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Limits of a route's settings.
const (
	maxRetries = 10
	maxTimeout = 7 * 24 * time.Hour // an open run ends then
	// maxCallTimeout is far more than a client waits for a reply.
	maxCallTimeout = time.Hour
)

// Patterns of challenge types and kinds of input. Kinds are an open set: those of a
// third party begin with its name and a dot.
var (
	plainName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	kindName  = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)
)

// Compile reads a tree and checks it against the drivers it may name. Its
// error is a *LoadError with everything that is wrong.
func Compile(src Source, drivers []driver.Descriptor) (*Tree, error) {
	c := compiler{
		doc: yamldoc.Document{File: src.Name, What: "the tree"},
		tree: &Tree{
			digest:    fmt.Sprintf("%x", sha256.Sum256(src.YAML)),
			inputs:    map[string]inputRule{},
			reactions: defaultReactions(),
			ofDrivers: map[string]map[Outcome]reaction{},
			routes:    map[string]*route{},
			drivers:   map[string]driver.Descriptor{},
			handlers:  map[string]string{},
		},
	}
	env, err := conditionEnv()
	if err != nil {
		return nil, err
	}
	c.tree.adapter = env.CELTypeAdapter()
	for _, d := range drivers {
		c.tree.drivers[d.Name] = d
	}
	if root := c.doc.Parse(src.YAML); root != nil {
		c.readTree(root)
		c.assignHandlers(drivers)
	}
	if err := c.doc.Err(); err != nil {
		return nil, err
	}
	c.tree.mentioned = mentionedBy(c.tree.conditions()...)
	c.tree.mentioned.addNeeds(c.tree.routes)
	return c.tree, nil
}

type compiler struct {
	doc  yamldoc.Document
	tree *Tree
}

func (c *compiler) readTree(root ast.Node) {
	fields, ok := c.doc.Mapping(root, "", "the tree", "defaults", "challenges", "inputs", "drivers", "on")
	if !ok {
		return
	}
	c.readDefaults(root, fields)
	if e, ok := fields["on"]; ok {
		c.readReactions(e.Value, "on", c.tree.reactions)
	}
	if e, ok := fields["drivers"]; ok {
		c.readDrivers(e.Value)
	}
	if e, ok := fields["challenges"]; ok {
		c.readRules(e.Value)
	} else {
		c.doc.Problem(root, "challenges", "the tree has no rules")
	}
	if e, ok := fields["inputs"]; ok {
		c.readInputs(e.Value)
	}
}

// readDrivers reads `drivers`: the reactions to outcomes of a driver's routes.
func (c *compiler) readDrivers(n ast.Node) {
	list, _ := c.doc.Entries(n, "drivers", "drivers")
	for _, e := range list {
		named := "drivers." + e.Name
		c.driverOf(e.Key, named, "on", e.Name, driver.RoleCapability)
		fields, _ := c.doc.Mapping(e.Value, named, named, "on")
		if on, ok := fields["on"]; ok {
			own := map[Outcome]reaction{}
			c.readReactions(on.Value, named+".on", own)
			c.tree.ofDrivers[e.Name] = own
		}
	}
}

func (c *compiler) readDefaults(root ast.Node, tree map[string]yamldoc.Entry) {
	e, ok := tree["defaults"]
	if !ok {
		c.doc.Problem(root, "defaults", "missing_type and no_challenge_type are not set")
		return
	}
	fields, ok := c.doc.Mapping(e.Value, "defaults", "defaults", "missing_type", "no_challenge_type")
	if !ok {
		return
	}
	for key, into := range map[string]*string{
		"missing_type":      &c.tree.missingType,
		"no_challenge_type": &c.tree.noChallengeType,
	} {
		if _, ok := fields[key]; !ok {
			c.doc.Problem(e.Key, "defaults", "%s is not set", key)
			continue
		}
		*into = c.doc.Text(fields, key, "defaults")
		if *into != "" && !plainName.MatchString(*into) {
			c.doc.Problem(fields[key].Value, "defaults", "%s: %q is not a challenge type", key, *into)
		}
	}
}

// readRules reads `challenges`.
func (c *compiler) readRules(n ast.Node) {
	items := c.doc.Sequence(n, "challenges", "challenges")
	for i, item := range items {
		r, ok := c.readRule(item, fmt.Sprintf("challenges[%d]", i))
		if !ok {
			continue
		}
		for j := range c.tree.rules {
			if earlier := &c.tree.rules[j]; earlier.covers(&r) {
				c.doc.Problem(item, label(r.path, r.name), "never reached: %s (line %d) matches all of it first",
					label(earlier.path, earlier.name), earlier.line)
				break
			}
		}
		c.tree.rules = append(c.tree.rules, r)
	}
	if len(items) > 0 && len(c.tree.rules) == len(items) {
		if last := &c.tree.rules[len(items)-1]; !last.broken && !last.matchesAll() {
			c.doc.Problem(items[len(items)-1], label(last.path, last.name),
				"the last rule must match every challenge: match {} and no when")
		}
	}
	if _, ok := n.(*ast.SequenceNode); ok && len(items) == 0 {
		c.doc.Problem(n, "challenges", "there must be a rule that matches every challenge")
	}
}

func (r *rule) matchesAll() bool {
	return r.when == nil && r.match.challengeType == nil && r.match.name == nil
}

// covers reports whether r matches every challenge that other matches.
func (r *rule) covers(other *rule) bool {
	same := func(mine, others *string) bool { return mine == nil || others != nil && *mine == *others }
	return r.when == nil && !r.broken && same(r.match.challengeType, other.match.challengeType) && same(r.match.name, other.match.name)
}

func (c *compiler) readRule(n ast.Node, path string) (rule, bool) {
	fields, ok := c.doc.Mapping(n, path, "a rule", "name", "match", "when", "use", "evidence")
	if !ok {
		return rule{}, false
	}
	r := rule{path: path}
	r.line, _ = yamldoc.Position(n)
	r.name = c.doc.Text(fields, "name", path)
	named := label(path, r.name)
	r.when = c.condition(fields, named)
	r.use = c.doc.Text(fields, "use", named)
	before := c.doc.Problems()
	r.match = c.readMatch(n, fields, named)
	r.broken = c.doc.Problems() > before
	c.checkUse(&r, fields, named)
	if e, ok := fields["evidence"]; ok {
		r.evidence = c.readRoutes(e.Value, path+".evidence", r.name, driver.KindEvidence)
		c.checkLastRoute(r.evidence, r.match, named)
	} else {
		c.doc.Problem(n, named, "evidence is missing: list the routes that obtain it")
	}
	return r, true
}

func (c *compiler) readMatch(n ast.Node, fields map[string]yamldoc.Entry, named string) match {
	e, ok := fields["match"]
	if !ok {
		c.doc.Problem(n, named, "match is missing; {} matches every challenge")
		return match{}
	}
	values, ok := c.doc.Mapping(e.Value, named, "match", "type", "name")
	if !ok {
		return match{}
	}
	var m match
	for key, into := range map[string]**string{"type": &m.challengeType, "name": &m.name} {
		if _, ok := values[key]; ok {
			v := c.doc.Text(values, key, named)
			*into = &v
		}
	}
	return m
}

func (c *compiler) checkUse(r *rule, fields map[string]yamldoc.Entry, named string) {
	if r.use == "" {
		return
	}
	n := fields["use"].Value
	d, ok := c.driverOf(n, named, "use", r.use, driver.RoleChallenge)
	if ok && r.match.challengeType != nil && !handles(d, *r.match.challengeType) {
		c.doc.Problem(n, named, "use: driver %q does not handle type %q, it handles %s",
			r.use, *r.match.challengeType, strings.Join(d.Handles, ", "))
	}
}

// driverOf finds a driver that the tree names and checks its role.
func (c *compiler) driverOf(n ast.Node, named, key, name string, role driver.Role) (driver.Descriptor, bool) {
	d, ok := c.tree.drivers[name]
	if !ok {
		var known []string
		for _, k := range slices.Sorted(maps.Keys(c.tree.drivers)) {
			if c.tree.drivers[k].Role == role {
				known = append(known, k)
			}
		}
		hint := yamldoc.Suggest(name, known)
		switch {
		case len(known) == 0:
			hint = fmt.Sprintf(", and no other %s driver", role)
		case hint == "":
			hint = "; configured are " + strings.Join(known, ", ")
		}
		c.doc.Problem(n, named, "%s: no driver %q is configured%s", key, name, hint)
		return d, false
	}
	if d.Role != role {
		c.doc.Problem(n, named, "%s: driver %q has role %s, a %s driver is needed", key, name, d.Role, role)
		return d, false
	}
	return d, true
}

func handles(d driver.Descriptor, what string) bool { return slices.Contains(d.Handles, what) }

// assignHandlers finds the driver of each type for rules that name none. Two
// drivers of one type are a problem unless a rule has chosen before.
func (c *compiler) assignHandlers(drivers []driver.Descriptor) {
	for _, d := range drivers {
		if d.Role != driver.RoleChallenge {
			continue
		}
		for _, challengeType := range d.Handles {
			other, taken := c.tree.handlers[challengeType]
			if !taken {
				c.tree.handlers[challengeType] = d.Name
				continue
			}
			if r := c.undecided(challengeType); r != nil && other != d.Name {
				c.doc.ProblemAt(r.line, 1, label(r.path, r.name), fmt.Sprintf(
					"drivers %q and %q both handle type %q: a rule with use must choose", other, d.Name, challengeType))
			}
		}
	}
}

// undecided returns the first rule that takes challenges of the type without naming a driver.
func (c *compiler) undecided(challengeType string) *rule {
	whole := rule{match: match{challengeType: &challengeType}}
	for i := range c.tree.rules {
		r := &c.tree.rules[i]
		if r.match.challengeType != nil && *r.match.challengeType != challengeType {
			continue
		}
		if r.use == "" {
			return r
		}
		if r.covers(&whole) {
			return nil
		}
	}
	return nil
}

// readInputs reads the routes for the kinds of input other than evidence.
func (c *compiler) readInputs(n ast.Node) {
	list, _ := c.doc.Entries(n, "inputs", "inputs")
	for _, e := range list {
		path := "inputs." + e.Name
		switch {
		case e.Name == driver.KindEvidence:
			c.doc.Problem(e.Key, path, "write routes for evidence in the rules of challenges")
			continue
		case e.Name == driver.KindSimilarity:
			c.doc.Problem(e.Key, path, "the server answers similarity itself: delete its routes")
			continue
		case !kindName.MatchString(e.Name):
			c.doc.Problem(e.Key, path, "%q is not a kind of input: one matches %s", e.Name, kindName)
			continue
		}
		in := inputRule{path: path, routes: c.readRoutes(e.Value, path, "", e.Name)}
		in.line, _ = yamldoc.Position(e.Key)
		c.tree.inputs[e.Name] = in
	}
}
