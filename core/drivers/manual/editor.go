package manual

import (
	"encoding/json"
	"slices"
)

// template is a text with a template in it, which may stand wherever the driver allows one.
var template = map[string]any{"type": "string", "pattern": `\{\{.*\}\}`}

// Params is the schema of a challenge's parameters as an author writes them: a template
// may replace a value. Nil: the driver declares none.
func Params(text json.RawMessage) map[string]any {
	var schema map[string]any
	if json.Unmarshal(text, &schema) != nil {
		return nil
	}
	open(schema, 0)
	return schema
}

// maxDepth bounds the levels in which templates are allowed.
const maxDepth = 16

// open lets a template replace each value below a schema.
func open(schema map[string]any, depth int) {
	if depth > maxDepth {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	for key, value := range properties {
		if below, ok := value.(map[string]any); ok {
			properties[key] = opened(below, depth)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if below, ok := schema[keyword].(map[string]any); ok {
			schema[keyword] = opened(below, depth)
		}
	}
}

// opened is the schema of a value that a template may replace.
func opened(schema map[string]any, depth int) map[string]any {
	open(schema, depth+1)
	narrow := []string{"enum", "const", "pattern", "format", "maxLength", "anyOf", "oneOf", "allOf", "$ref"}
	if kind, known := schema["type"]; !known && len(schema) <= 1 || kind == "string" && !slices.ContainsFunc(narrow, func(k string) bool { return schema[k] != nil }) {
		return schema // takes any text
	}
	either := map[string]any{"anyOf": []any{schema, template}}
	for _, shown := range []string{"description", "default"} {
		if schema[shown] != nil {
			either[shown] = schema[shown]
		}
	}
	return either
}
