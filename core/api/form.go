package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// agentAlternative marks, with the value true, the alternative of a schema's
// anyOf or oneOf that agents report; without it they are shown the first one.
const agentAlternative = "x-kairos-agent"

// Bounds of a form: beyond them there is one placeholder for all of it.
const (
	formDepth = 6
	formSize  = 8 << 10 // bytes, encoded
)

// wholeForm describes a form that cannot say more.
const wholeForm = "what challenge.description demands"

// blank makes the form of one place in a value.
type blank struct {
	what     string // said of a place that its schema does not describe; "" below a key, which names it
	optional bool
	depth    int // how many levels may still follow
}

// MayBeForm is cheap, and false for nearly everything without a placeholder.
func MayBeForm(raw json.RawMessage) bool {
	return bytes.ContainsRune(raw, '<') || bytes.Contains(raw, []byte(`\u003`))
}

// Value decodes a JSON value; nil: it is empty or not JSON.
func Value(raw json.RawMessage) any {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// Form is a value of the schema with a placeholder, a text in angle brackets,
// for everything that has to be filled in. A schema that says nothing, or too
// much, gives one placeholder.
func Form(schema json.RawMessage) any {
	return bounded(blank{what: wholeForm, depth: formDepth}, Value(schema))
}

func bounded(b blank, schema any) any {
	form := b.of(schema)
	if encoded, err := json.Marshal(form); err != nil || len(encoded) > formSize {
		return blank{what: b.what}.of(nil)
	}
	return form
}

// RequiredInputs lists the keys that the schema of a protocol's inputs requires, in its order.
func RequiredInputs(inputs json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(inputs, &s) != nil {
		return nil
	}
	return s.Required
}

// InputForm has a placeholder for each of the keys of a protocol's inputs: the same
// whatever other keys there are, so that it is known again when it comes back.
func InputForm(inputs json.RawMessage, keys []string) map[string]any {
	form := make(map[string]any, len(keys))
	s, _ := Value(inputs).(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for _, key := range keys {
		form[key] = bounded(blank{depth: formDepth - 1}, properties[key])
	}
	return form
}

func (b blank) of(schema any) any {
	s, _ := schema.(map[string]any) // true and false say nothing
	s = oneShape(s)
	switch s["type"] {
	case "object":
		if fields, _ := s["properties"].(map[string]any); len(fields) > 0 && b.depth > 0 {
			return b.object(fields, s["required"])
		}
	case "array":
		if items, ok := s["items"].(map[string]any); ok && b.depth > 0 {
			return []any{blank{describedBy(s, b.what), b.optional, b.depth - 1}.of(items)}
		}
	}
	return b.text(s)
}

func (b blank) object(fields map[string]any, required any) map[string]any {
	needed, _ := required.([]any)
	out := make(map[string]any, len(fields))
	for name, field := range fields {
		optional := b.optional || !slices.Contains(needed, any(name))
		out[name] = blank{"", optional, b.depth - 1}.of(field)
	}
	return out
}

// text is the placeholder: "<integer: exit code of the command>".
func (b blank) text(s map[string]any) string {
	kind := shapeOf(s)
	if b.optional {
		kind += ", optional"
	}
	if what := describedBy(s, b.what); what != "" {
		kind += ": " + what
	}
	return "<" + kind + ">"
}

func describedBy(s map[string]any, otherwise string) string {
	for _, key := range []string{"description", "title"} {
		if text, _ := s[key].(string); strings.TrimSpace(text) != "" {
			return plain.Clip(strings.Join(strings.Fields(text), " "), 200)
		}
	}
	return otherwise
}

// shapeOf says what may stand in a place.
func shapeOf(s map[string]any) string {
	if v, fixed := s["const"]; fixed {
		return "exactly " + literal(v)
	}
	if choices, _ := s["enum"].([]any); len(choices) > 0 && len(choices) <= 20 {
		words := make([]string, len(choices))
		for i, c := range choices {
			words[i] = literal(c)
		}
		return "one of " + strings.Join(words, ", ")
	}
	switch t := s["type"].(type) {
	case string:
		if n, _ := s["minLength"].(float64); t == "string" && n > 1 {
			return fmt.Sprintf("string of at least %v characters", n)
		}
		return t
	case []any:
		words := make([]string, len(t))
		for i, w := range t {
			words[i] = fmt.Sprint(w)
		}
		return strings.Join(words, " or ")
	}
	return "anything"
}

func literal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?" // unreachable: was decoded from JSON
	}
	return plain.Clip(string(b), 80)
}

// oneShape resolves alternatives to the one that agents report.
func oneShape(s map[string]any) map[string]any {
	for _, key := range []string{"anyOf", "oneOf"} {
		if alternatives, _ := s[key].([]any); len(alternatives) > 0 && s["properties"] == nil {
			if values := consts(alternatives); values != nil {
				return both(s, map[string]any{"enum": values})
			}
			return both(s, reported(alternatives))
		}
	}
	return s
}

// consts are the values of titled choices; nil: an alternative is something else.
func consts(alternatives []any) []any {
	var values []any
	for _, a := range alternatives {
		choice, _ := a.(map[string]any)
		value, fixed := choice["const"]
		if !fixed {
			return nil
		}
		values = append(values, value)
	}
	return values
}

// AgentShape is the schema with the alternative that is marked for agents in the place of
// all of them; without a mark it stays as it is.
func AgentShape(s map[string]any) map[string]any {
	for _, key := range []string{"anyOf", "oneOf"} {
		alternatives, _ := s[key].([]any)
		for _, a := range alternatives {
			if m, _ := a.(map[string]any); m[agentAlternative] == true {
				return oneShape(s)
			}
		}
	}
	return s
}

func reported(alternatives []any) map[string]any {
	for _, a := range alternatives {
		if m, _ := a.(map[string]any); m[agentAlternative] == true {
			return m
		}
	}
	first, _ := alternatives[0].(map[string]any)
	return first
}

// both is what a schema says, and where it is silent the alternative.
func both(s, alternative map[string]any) map[string]any {
	out := maps.Clone(alternative)
	if out == nil {
		return s
	}
	maps.Copy(out, s)
	delete(out, "anyOf")
	delete(out, "oneOf")
	return out
}

// LeftAt lists, as JSON pointers, where a member of a solution still holds a placeholder of
// the form: as next_call shows it, or one that it shows within the placeholder of a text.
func LeftAt(member string, form, value any) []string {
	at := "/" + member
	found := Untouched(FormAt(member, form), value, at)
	for _, place := range Untouched(form, value, at) {
		if !slices.Contains(found, place) {
			found = append(found, place)
		}
	}
	return found
}

// Untouched lists, as JSON pointers, where a value still holds what the form
// says there. Lists in a form have one element, the example for all.
func Untouched(form, value any, at string) []string {
	var found []string
	switch f := form.(type) {
	case string:
		if v, ok := value.(string); ok && strings.TrimSpace(v) == f {
			found = append(found, at)
		}
	case map[string]any:
		v, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if sub, known := f[name]; known {
				found = append(found, Untouched(sub, v[name], at+"/"+name)...)
			}
		}
	case []any:
		v, _ := value.([]any)
		for i, element := range v {
			found = append(found, Untouched(f[0], element, fmt.Sprintf("%s/%d", at, i))...)
		}
	}
	return found
}
