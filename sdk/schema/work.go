package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// survey walks the parts of a schema. A reference whose target depends on the way
// to it is an error, because the work behind it cannot be counted.
func survey(root *jsonschema.Schema) (err error) {
	everyPart(root, func(s *jsonschema.Schema) {
		if moves(s) {
			err = fmt.Errorf("not a usable JSON Schema: $dynamicRef and $recursiveRef to an anchor that moves are not followed (%s)", s.Location)
		}
	})
	return err
}

// everyPart does something with each part of a schema, once.
func everyPart(root *jsonschema.Schema, do func(*jsonschema.Schema)) {
	seen := map[*jsonschema.Schema]bool{nil: true}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		do(s)
		eachPart(s, visit)
		anyMember(s, visit)
		anyItem(s, visit)
	}
	visit(root)
}

// circular finds a part of a schema that judges a value by judging the same value
// by itself, as {"$ref": "#"} does: no value can be judged by it. It returns nil if none does.
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
