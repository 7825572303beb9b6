package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork is how often one validation may compare a value with a schema. A
// schema whose parts are referred to in many ways, or that refers to itself
// twice, can double the work with each reference or level of the value.
const maxWork = 1 << 20

// survey walks the parts of a schema. It reports whether one of them can be
// reached in two ways: of other schemas each part meets each value once at most.
// A reference whose target depends on the way to it is an error, because the
// work behind it cannot be counted.
func survey(root *jsonschema.Schema) (shares bool, err error) {
	seen := map[*jsonschema.Schema]bool{}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if seen[s] {
			shares = true
			return
		}
		seen[s] = true
		if moves(s) {
			err = fmt.Errorf("not a usable JSON Schema: $dynamicRef and $recursiveRef to an anchor that moves are not followed (%s)", s.Location)
		}
		eachPart(s, visit)
		anyMember(s, visit)
		anyItem(s, visit)
	}
	visit(root)
	return shares, err
}

// circular finds a part of a schema that judges a value by judging the same value
// by itself, as {"$ref": "#"} does: no value can be judged by it. nil: none does.
func circular(root *jsonschema.Schema) *jsonschema.Schema {
	const entered, left = 1, 2
	state := map[*jsonschema.Schema]int{}
	rest := []*jsonschema.Schema{root}
	later := func(s *jsonschema.Schema) { rest = append(rest, s) }
	var found *jsonschema.Schema
	var enter func(s *jsonschema.Schema)
	enter = func(s *jsonschema.Schema) {
		switch state[s] {
		case entered:
			found = s
			return
		case left:
			return
		}
		state[s] = entered
		eachPart(s, enter)
		state[s] = left
		anyMember(s, later)
		anyItem(s, later)
	}
	for len(rest) > 0 {
		s := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		enter(s)
	}
	return found
}

// moves reports whether the schema has a reference that is resolved anew
// wherever it is met.
func moves(s *jsonschema.Schema) bool {
	d, r := s.DynamicRef, s.RecursiveRef
	return d != nil && d.Anchor != "" && d.Ref.DynamicAnchor == d.Anchor || r != nil && r.RecursiveAnchor
}

// work counts, without doing it, how often validating a value holds a part of
// it against a part of the schema. More than maxWork is maxWork+1.
func work(s *jsonschema.Schema, value any) int {
	c := counter{known: map[meeting]int{}}
	return c.count(s, nodeOf(value))
}

// node is a part of a value that has an identity.
type node struct {
	members map[string]*node
	items   []*node
}

func nodeOf(value any) *node {
	n := &node{}
	switch value := value.(type) {
	case map[string]any:
		n.members = make(map[string]*node, len(value))
		for name, v := range value {
			n.members[name] = nodeOf(v)
		}
	case []any:
		for _, v := range value {
			n.items = append(n.items, nodeOf(v))
		}
	}
	return n
}

type meeting struct {
	schema *jsonschema.Schema
	value  *node
}

type counter struct {
	known map[meeting]int // 0: being counted, so that it is met in a circle
}

func (c *counter) count(s *jsonschema.Schema, n *node) int {
	m := meeting{s, n}
	if known, ok := c.known[m]; ok {
		return known
	}
	if len(c.known) > maxWork {
		return maxWork + 1
	}
	c.known[m] = 0
	total := 1
	add := func(n *node) func(*jsonschema.Schema) {
		return func(part *jsonschema.Schema) {
			if total <= maxWork {
				total = min(total+c.count(part, n), maxWork+1)
			}
		}
	}
	eachPart(s, add(n))
	for name, member := range n.members {
		eachMember(s, name, add(member))
	}
	for i, item := range n.items {
		eachItem(s, i, add(item))
	}
	c.known[m] = total
	return total
}

// eachPart visits what judges the same value as the schema.
func eachPart(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	visitAll(visit, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		visitAll(visit, s.DynamicRef.Ref)
	}
	visitAll(visit, s.AllOf...)
	visitAll(visit, s.AnyOf...)
	visitAll(visit, s.OneOf...)
	for _, part := range s.DependentSchemas {
		visitAll(visit, part)
	}
	for _, part := range s.Dependencies {
		visitAny(visit, part)
	}
}

// eachMember visits what judges a member of an object. It looks the name up, as
// the validator does: trying all names would be more work than what it counts.
func eachMember(s *jsonschema.Schema, name string, visit func(*jsonschema.Schema)) {
	part, known := s.Properties[name]
	if known {
		visitAll(visit, part)
	} else {
		visitAny(visit, s.AdditionalProperties)
	}
	for pattern, part := range s.PatternProperties {
		if pattern.MatchString(name) {
			visitAll(visit, part)
		}
	}
	visitAll(visit, s.UnevaluatedProperties, s.PropertyNames)
}

// anyMember visits what may judge a member of an object.
func anyMember(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	for _, part := range s.Properties {
		visitAll(visit, part)
	}
	for _, part := range s.PatternProperties {
		visitAll(visit, part)
	}
	visitAny(visit, s.AdditionalProperties)
	visitAll(visit, s.UnevaluatedProperties, s.PropertyNames)
}

// eachItem visits what judges the item of a list.
func eachItem(s *jsonschema.Schema, i int, visit func(*jsonschema.Schema)) {
	if i < len(s.PrefixItems) {
		visitAll(visit, s.PrefixItems[i])
	}
	if list, ok := s.Items.([]*jsonschema.Schema); ok && i < len(list) {
		visitAll(visit, list[i])
	}
	everyItem(s, visit)
}

// anyItem visits what may judge an item of a list.
func anyItem(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	visitAll(visit, s.PrefixItems...)
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		visitAll(visit, list...)
	}
	everyItem(s, visit)
}

// everyItem visits what judges items wherever they stand.
func everyItem(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	visitAny(visit, s.Items)
	visitAny(visit, s.AdditionalItems)
	visitAll(visit, s.Items2020, s.UnevaluatedItems, s.Contains)
}

func visitAll(visit func(*jsonschema.Schema), parts ...*jsonschema.Schema) {
	for _, part := range parts {
		if part != nil {
			visit(part)
		}
	}
}

// visitAny visits what may be a schema or something else.
func visitAny(visit func(*jsonschema.Schema), part any) {
	if s, ok := part.(*jsonschema.Schema); ok {
		visitAll(visit, s)
	}
}
