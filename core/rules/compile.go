package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Source is the text of a configuration file, of which the key `rules` is read.
type Source struct {
	Name string // the file, for errors
	YAML []byte
	// Realm is that of groups which are written without one. Empty: nobody can log in.
	Realm string
}

// The keys of a rule that the core reads itself.
var (
	matcherKeys  = []string{"type", "space", "protocol", "tag", "step", "when"}
	effectKeys   = []string{"evidence", "approval", "judge"}
	approvalKeys = []string{"how", "phrase", "after", "by", "not", "quorum"}
)

// maxRules bounds the list: every step is compared with all of them.
const maxRules = 200

// Compile reads the rules of a configuration and checks them against the drivers that may
// be named and whose actions may be matched. Its error is a *yamldoc.LoadError with everything that is
// wrong. A configuration without rules gives an empty set.
func Compile(src Source, drivers []driver.Descriptor) (*Set, error) {
	set := &Set{states: map[string]map[string]bool{}}
	if !bytes.Contains(src.YAML, []byte("rules")) {
		return set, nil
	}
	c := compiler{doc: yamldoc.Document{File: src.Name, What: "the configuration", MayBeEmpty: true}, set: set, known: knownBy(drivers, set), realm: src.Realm}
	if list := rulesIn(c.doc.Parse(src.YAML)); list != nil {
		c.readRules(list)
	}
	if err := c.doc.Err(); err != nil {
		return nil, err
	}
	return set, nil
}

// rulesIn is the value of the key `rules`; nil: there is none.
func rulesIn(root ast.Node) ast.Node {
	m, ok := root.(ast.MapNode)
	if !ok {
		return nil
	}
	for i := m.MapRange(); i.Next(); {
		if key, ok := i.Key().(*ast.StringNode); ok && key.Value == "rules" {
			return i.Value()
		}
	}
	return nil
}

// known is what the locked drivers say of themselves.
type known struct {
	types  []string
	judges []string
	ways   []string
	// members are the declarations of each member of actions.
	members map[string][]declaration
}

// declaration is what one driver declares of a member.
type declaration struct {
	driver string
	kind   driver.MemberKind
	schema json.RawMessage
}

func knownBy(drivers []driver.Descriptor, set *Set) known {
	k := known{members: map[string][]declaration{}}
	for _, d := range drivers {
		k.ways = append(k.ways, d.AnswersBy...)
		switch {
		case d.Role == driver.RoleChallenge:
			k.types = append(k.types, d.Handles...)
		case slices.Contains(d.Handles, driver.KindJudge):
			k.judges = append(k.judges, d.Name)
		}
		declared, err := driver.ActionMembers(d.ActionSchema)
		if err != nil {
			continue // a descriptor is checked when it is locked
		}
		var of struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		_ = json.Unmarshal(d.ActionSchema, &of) // was read a moment ago
		set.states[d.Name] = map[string]bool{}
		for name, kind := range declared {
			if slices.Contains(slices.Concat(matcherKeys, effectKeys), name) {
				continue // the core's own word
			}
			set.states[d.Name][name] = true
			k.members[name] = append(k.members[name], declaration{d.Name, kind, of.Properties[name]})
		}
	}
	slices.Sort(k.types)
	slices.Sort(k.judges)
	slices.Sort(k.ways)
	k.ways = slices.Compact(k.ways)
	return k
}

type compiler struct {
	doc   yamldoc.Document
	set   *Set
	known known
	realm string // Source.Realm
}

func (c *compiler) readRules(n ast.Node) {
	if _, nothing := n.(*ast.NullNode); nothing {
		return
	}
	items := c.doc.Sequence(n, "rules", "rules")
	if len(items) > maxRules {
		c.doc.Problem(n, "rules", "there are %d rules; at most %d are allowed", len(items), maxRules)
		return
	}
	line, _ := yamldoc.Position(n)
	c.set.digest = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", line, c.realm, n)))
	for i, item := range items {
		c.readRule(i, item)
	}
}

func (c *compiler) readRule(i int, n ast.Node) {
	named, before := fmt.Sprintf("rules[%d]", i), c.doc.Problems()
	list, ok := c.doc.Entries(n, named, "a rule")
	if !ok {
		return
	}
	r := rule{index: i, match: map[string]string{}}
	r.line, _ = yamldoc.Position(n)
	entries := map[string]yamldoc.Entry{}
	for _, e := range list {
		entries[e.Name] = e
		c.readKey(&r, e, named)
	}
	r.when = decision.ReadCondition(&c.doc, entries, named)
	if fact := r.when.ReadsChosen(); fact != "" {
		c.doc.Problem(entries["when"].Value, named, "when: a rule cannot read %s, which the caller chooses; it can read challenge, step, protocol, run, caller and config", fact)
	}
	if r.demand.Zero() && c.doc.Problems() == before {
		c.doc.Problem(n, named, "it demands nothing: add evidence (person or server), approval ({} for any way) or judge (the driver that judges)")
	}
	r.demand.By = []string{r.place()}
	if words := r.words(); words != "" {
		r.demand.By[0] += ": " + words
	}
	c.set.rules = append(c.set.rules, r)
}

// words are what the rule demands, whatever step it matches.
func (r *rule) words() string {
	words := r.demand.Words()
	if r.named {
		words = strings.Replace(words, "approval", "approval, the step's name typed", 1)
	}
	return words
}

func (c *compiler) readKey(r *rule, e yamldoc.Entry, named string) {
	switch {
	case e.Name == "when": // is read once all are known
	case e.Name == "evidence":
		c.readEvidence(r, e, named)
	case e.Name == "approval":
		c.readApproval(r, e, named)
	case e.Name == "judge":
		c.readJudge(r, e, named)
	case slices.Contains(matcherKeys, e.Name):
		c.readMatcher(r, e, named)
	case c.known.members[e.Name] != nil:
		c.readMember(r, e, named)
	default:
		c.unknownKey(e, named)
	}
}

// unknownKey says which key may be meant, and what drivers would have to state.
func (c *compiler) unknownKey(e yamldoc.Entry, named string) {
	members := slices.Sorted(maps.Keys(c.known.members))
	hint := yamldoc.Suggest(e.Name, slices.Concat(matcherKeys, effectKeys, members))
	if hint == "" {
		hint = fmt.Sprintf(": a rule has the matchers %s, the effects %s, and what the locked drivers state of actions: %s",
			strings.Join(matcherKeys, ", "), strings.Join(effectKeys, ", "), cmp.Or(strings.Join(members, ", "), "nothing"))
	}
	if slices.Contains(approvalKeys, e.Name) {
		hint = fmt.Sprintf(": write it in approval: {%s: ...}", e.Name)
	}
	c.doc.Problem(e.Key, named, "unknown key %.80q%s", e.Name, hint)
}

// readMatcher reads a matcher of the core, which is one text.
func (c *compiler) readMatcher(r *rule, e yamldoc.Entry, named string) {
	text, ok := yamldoc.TextOf(e.Value)
	if !ok || strings.TrimSpace(text) == "" || text != strings.TrimSpace(text) {
		hint := ""
		if _, list := e.Value.(*ast.SequenceNode); list {
			hint = ": write a rule for each"
		}
		c.doc.Problem(e.Value, named, "%s must be one text, without blanks around it, not %s%s", e.Name, yamldoc.Shown(e.Value), hint)
		return
	}
	if why := c.mismatched(e.Name, text); why != "" {
		c.doc.Problem(e.Value, named, "%s: %s", e.Name, why)
		return
	}
	r.match[e.Name] = text
}

// mismatched says why a matcher can never fit; empty: it may.
func (c *compiler) mismatched(matcher, text string) string {
	switch {
	case matcher == "type" && !slices.Contains(c.known.types, text):
		hint := yamldoc.Suggest(text, c.known.types)
		if hint == "" {
			hint = "; the types are " + strings.Join(c.known.types, ", ")
		}
		return fmt.Sprintf("no locked driver handles the challenge type %.80q%s", text, hint)
	case matcher == "step" && protocol.Slug(text) != text:
		return fmt.Sprintf("%.80q is not the name of a step, did you mean %q?", text, protocol.Slug(text))
	case matcher == "space" && strings.HasPrefix(strings.ToLower(text), "group: "):
		return fmt.Sprintf("write the name alone: %q", strings.TrimSpace(text[len("group:"):]))
	case matcher == "space" && strings.ContainsAny(text, "\n\t*{}[]"):
		return fmt.Sprintf("%.80q is not the name of a space; `kairos spaces` lists them", text)
	case matcher == "protocol" && strings.HasPrefix(text, "kairos:"):
		if id, err := protocol.ParseURI(text); err != nil || protocol.URI(id) != text {
			return fmt.Sprintf("%.80q is not the URI of a protocol: write it as `kairos search` prints it, such as kairos://mem/0198c5a2-...", text)
		}
	}
	return ""
}

// readMember reads a matcher of a member of actions, as one of the drivers declares it.
func (c *compiler) readMember(r *rule, e yamldoc.Entry, named string) {
	declared := c.known.members[e.Name]
	m := member{name: e.Name}
	var value any
	if text, ok := yamldoc.TextOf(e.Value); ok {
		m.text, value = text, text
		if !slices.ContainsFunc(declared, func(d declaration) bool { return d.kind == driver.MemberText }) {
			c.doc.Problem(e.Value, named, "%s %s", e.Name, notAText(declared[0], text))
			return
		}
	} else {
		items := c.doc.Sequence(e.Value, named, e.Name)
		if items == nil {
			return
		}
		if !slices.ContainsFunc(declared, func(d declaration) bool { return d.kind == driver.MemberList }) {
			c.doc.Problem(e.Value, named, "%s is one text in the actions of driver %s: write a rule for each", e.Name, declared[0].driver)
			return
		}
		m.words = []string{}
		for _, item := range items {
			word, ok := yamldoc.TextOf(item)
			if !ok {
				c.doc.Problem(item, named, "%s must be a list of texts, and %s is not one: put it in quotes", e.Name, yamldoc.Shown(item))
				return
			}
			m.words = append(m.words, word)
		}
		value = m.words
	}
	if why := refused(declared, value); why != "" {
		c.doc.Problem(e.Value, named, "%s can never match: %s", e.Name, why)
		return
	}
	r.members = append(r.members, m)
}

// notAText says what a member is that a rule compares with a text.
func notAText(d declaration, text string) string {
	if d.kind == driver.MemberList {
		return fmt.Sprintf("is a list in the actions of driver %s: write [%s]", d.driver, strings.Join(strings.Fields(text), ", "))
	}
	return fmt.Sprintf("of driver %s is neither a text nor a list, so no rule can match it: use when", d.driver)
}

// refused says why no driver can state the value; empty: one can.
func refused(declared []declaration, value any) (why string) {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	for _, d := range declared {
		by := d.schema
		var list struct {
			Items json.RawMessage `json:"items"`
		}
		if d.kind == driver.MemberList && json.Unmarshal(d.schema, &list) == nil && len(list.Items) > 0 {
			var item struct {
				Type string `json:"type"`
			}
			if json.Unmarshal(list.Items, &item) == nil && item.Type == "array" {
				by = list.Items // the rule says how an element begins
			}
		}
		found := schema.Validate(by, raw)
		if len(found) == 0 {
			return ""
		}
		var about struct {
			Description string `json:"description"`
		}
		_ = json.Unmarshal(d.schema, &about) // it has one, or says nothing
		if why = fields.Text(found); about.Description != "" {
			why += " (driver " + d.driver + ": " + about.Description + ")"
		}
	}
	return why
}
