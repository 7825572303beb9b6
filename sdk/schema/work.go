package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxWork is how often one validation may hold a value against a schema. A
// schema whose parts are referred to in many ways, or that refers to itself
// twice, can double the work with each reference or level of the value.
const maxWork = 1 << 20

// shares reports whether a part of the schema can be reached in two ways. Of
// other schemas each part meets each value once at most.
func shares(root *jsonschema.Schema) bool {
	seen := map[*jsonschema.Schema]bool{}
	var again func(s *jsonschema.Schema) bool
	again = func(s *jsonschema.Schema) bool {
		if seen[s] {
			return true
		}
		seen[s] = true
		found := false
		visit := func(part *jsonschema.Schema) { found = found || again(part) }
		eachPart(s, visit)
		eachMember(s, "", true, visit)
		eachItem(s, -1, visit)
		return found
	}
	return again(root)
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
		eachMember(s, name, false, add(member))
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

// eachMember visits what judges a member of an object, or with all those of any.
func eachMember(s *jsonschema.Schema, name string, all bool, visit func(*jsonschema.Schema)) {
	for known, part := range s.Properties {
		if all || known == name {
			visitAll(visit, part)
		}
	}
	for pattern, part := range s.PatternProperties {
		if all || pattern.MatchString(name) {
			visitAll(visit, part)
		}
	}
	if _, known := s.Properties[name]; all || !known {
		visitAny(visit, s.AdditionalProperties)
	}
	visitAll(visit, s.UnevaluatedProperties, s.PropertyNames)
}

// eachItem visits what judges the item of a list, or below 0 those of any.
func eachItem(s *jsonschema.Schema, i int, visit func(*jsonschema.Schema)) {
	lists := [][]*jsonschema.Schema{s.PrefixItems}
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		lists = append(lists, list)
	}
	for _, list := range lists {
		for at, part := range list {
			if i < 0 || at == i {
				visitAll(visit, part)
			}
		}
	}
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
