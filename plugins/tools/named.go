package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/pattern"
)

// maxDepth and maxParts bound how far a schema is followed: a reference may lead to
// itself.
const maxDepth, maxParts = 64, 1 << 20

// stepsPerPart is how many steps of a pattern take as long as following a part.
const stepsPerPart = 64

// namedFields is what the step names of a result: the properties of its output_schema,
// else what the challenge expects of the result, else nothing. The result is data of
// a stranger: the rest reaches neither replies nor prompts nor later steps.
func namedFields(value, evidence, expected json.RawMessage) json.RawMessage {
	if by, ok := outputSchema(evidence); ok {
		n := &naming{root: by, left: maxParts, patterns: map[string]*pattern.Pattern{}}
		if kept := n.of(decoded(value), by, 0); n.left > 0 {
			return encoded(kept)
		}
		return json.RawMessage("null")
	}
	if want, ok := decoded(expected).(map[string]any); ok {
		return encoded(agreed(decoded(value), want))
	}
	return json.RawMessage("null")
}

// outputSchema is the step's output_schema, which the schema of the evidence has as
// that of the result that an agent would report.
func outputSchema(evidence json.RawMessage) (schema any, ok bool) {
	top, _ := decoded(evidence).(map[string]any)
	alternatives, _ := top["anyOf"].([]any)
	for _, a := range alternatives {
		alternative, _ := a.(map[string]any)
		properties, _ := alternative["properties"].(map[string]any)
		if alternative["x-kairos-agent"] == true {
			schema, ok = properties["result"]
		}
	}
	// With references of its own the schema stands once, beside the report.
	reference, _ := schema.(map[string]any)
	for _, a := range alternatives {
		if beside, _ := a.(map[string]any); beside["$id"] != nil && beside["$id"] == reference["$ref"] {
			return beside, true
		}
	}
	return schema, ok
}

// naming keeps of a value what a schema names.
type naming struct {
	root any
	left int // parts that may still be followed; at 0 what was kept does not count

	budget   pattern.Budget
	patterns map[string]*pattern.Pattern // nil: refused
}

// of is the value without what the schema does not name. Inside of a named property a
// schema that leaves the shape open names everything; the result itself has to be
// described.
func (n *naming) of(value, schema any, depth int) any {
	by, _ := schema.(map[string]any)
	open := depth > 0 && depth <= maxDepth
	switch value := value.(type) {
	case map[string]any:
		if open && !n.describes(by, depth, "properties", "patternProperties", "additionalProperties") {
			return value
		}
		kept := map[string]any{}
		n.members(kept, value, by, depth)
		return kept
	case []any:
		if !n.describes(by, depth, "items", "prefixItems") {
			return map[bool]any{true: value, false: []any{}}[open]
		}
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = n.item(item, i, by, depth)
		}
		return items
	}
	if open || n.describes(by, depth, "type", "const", "enum") {
		return value
	}
	return nil
}

// describes reports whether the schema or a part of it has one of the keywords, and
// says something with it.
func (n *naming) describes(by map[string]any, depth int, keywords ...string) bool {
	for _, key := range keywords {
		if said, found := by[key]; found && said != true {
			return true
		}
	}
	return depth <= maxDepth && slices.ContainsFunc(n.parts(by), func(part map[string]any) bool { return n.describes(part, depth+1, keywords...) })
}

// matches reports whether a key matches an expression. Each is compiled once.
func (n *naming) matches(expression, key string) bool {
	compiled, known := n.patterns[expression]
	if !known {
		compiled, _ = n.budget.Compile(expression) // an expression that is refused names nothing
		n.patterns[expression] = compiled
	}
	if compiled == nil {
		return false
	}
	n.left -= 1 + compiled.Steps()*len(key)/stepsPerPart
	return n.left > 0 && compiled.MatchString(key)
}

// members adds to kept what the schema and its parts name of an object. A schema
// that says nothing of properties names none.
func (n *naming) members(kept, value, by map[string]any, depth int) {
	if depth > maxDepth {
		return
	}
	for key, schema := range object(by["properties"]) {
		if inner, ok := value[key]; ok {
			kept[key] = n.of(inner, schema, depth+1)
		}
	}
	for expression, schema := range object(by["patternProperties"]) {
		for key, inner := range value {
			if n.matches(expression, key) {
				kept[key] = n.of(inner, schema, depth+1)
			}
		}
	}
	if rest, ok := by["additionalProperties"].(map[string]any); ok && len(rest) > 0 {
		for key, inner := range value {
			if _, ok := kept[key]; !ok {
				kept[key] = n.of(inner, rest, depth+1)
			}
		}
	}
	for _, part := range n.parts(by) {
		more := map[string]any{}
		n.members(more, value, part, depth+1)
		maps.Copy(kept, more)
	}
}

// item is what the schema and its parts name of an element of a list.
func (n *naming) item(value any, at int, by map[string]any, depth int) any {
	if prefix, _ := by["prefixItems"].([]any); at < len(prefix) {
		return n.of(value, prefix[at], depth+1)
	}
	if schema, ok := by["items"]; ok {
		return n.of(value, schema, depth+1)
	}
	for _, part := range n.parts(by) {
		if n.describes(part, depth+1, "items", "prefixItems") {
			return n.item(value, at, part, depth+1)
		}
	}
	return nil
}

// parts are the schemas that a schema is put together from.
func (n *naming) parts(by map[string]any) (parts []map[string]any) {
	if n.left == 0 {
		return nil
	}
	n.left--
	add := func(schemas ...any) {
		for _, s := range schemas {
			if part, ok := s.(map[string]any); ok {
				parts = append(parts, part)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := by[key].([]any)
		add(list...)
	}
	add(by["then"], by["else"])
	if reference, ok := by["$ref"].(string); ok {
		add(n.referred(reference))
	}
	return parts
}

// referred follows a JSON pointer into the schema, which is all that the strict form
// of an output_schema may refer with.
func (n *naming) referred(reference string) any {
	pointer, ok := strings.CutPrefix(reference, "#")
	if !ok {
		return nil
	}
	at := n.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch inner := at.(type) {
		case map[string]any:
			at = inner[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(inner) {
				return nil
			}
			at = inner[i]
		default:
			return nil
		}
	}
	return at
}

// agreed is of the value what is as expected, so that it holds nothing that the
// protocol does not state itself.
func agreed(value, want any) any {
	switch want := want.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, inner := range object(value) {
			if w, ok := want[key]; ok {
				kept[key] = agreed(inner, w)
			}
		}
		return kept
	case []any:
		list, _ := value.([]any)
		if len(list) != len(want) {
			return nil
		}
		kept := make([]any, len(list))
		for i := range list {
			kept[i] = agreed(list[i], want[i])
		}
		return kept
	case json.Number:
		if got, ok := value.(json.Number); ok {
			a, errA := got.Float64()
			b, errB := want.Float64()
			if errA == nil && errB == nil && a == b {
				return got // whether they are the same exactly is judged later
			}
		}
		return nil
	}
	if reflect.DeepEqual(value, want) {
		return value
	}
	return nil
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// decoded is nil for what is not JSON.
func decoded(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func encoded(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // unreachable: it was JSON
	}
	return b
}
