package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Limits of the JSON text that Lossless opens in one value.
const (
	MaxOpened       = 8 << 20 // bytes, a text within a text counted again
	maxOpenedValues = 100_000 // see countValues
)

// Lossless reads the forms in which clients send a value that their model or their host
// could not write as it is, where the schema leaves no doubt about the value:
//
//   - JSON as text where the schema does not allow a string: an object, a list, a number,
//     a boolean
//   - JSON as text of an object or a list where the schema says nothing
//   - one string for a list of strings
//   - a whole number that is written with a point or an exponent
//   - null or an empty text for a member that may be absent, and that may not be so
//
// All else is returned as it is, byte for byte, for a validator to refuse. The schema is a
// decoded JSON Schema, the value is valid JSON. Below alternatives (anyOf, oneOf, allOf,
// $ref, if) nothing is read. It returns an error for more text than its limits.
func Lossless(schema any, value json.RawMessage) (json.RawMessage, error) {
	var r opening
	return r.value(schema, bytes.Trim(value, space))
}

// opening counts what is opened in one value.
type opening struct{ bytes, values int }

func (r *opening) value(schema any, v json.RawMessage) (json.RawMessage, error) {
	s, _ := schema.(map[string]any)
	allowed, known := typesOf(s)
	if !known || len(v) == 0 {
		return v, nil
	}
	if v[0] == '"' && !slices.Contains(allowed, "string") {
		opened, err := r.opened(v, allowed)
		switch {
		case err != nil:
			return nil, err
		case opened != nil:
			v = opened
		case listOfStrings(s, allowed) && string(v) != `""`:
			return slices.Concat(json.RawMessage("["), v, json.RawMessage("]")), nil
		}
	}
	switch {
	case v[0] == '{' && slices.Contains(allowed, "object"):
		return r.object(s, v)
	case v[0] == '[' && slices.Contains(allowed, "array"):
		return r.list(s, v)
	case slices.Contains(allowed, "integer") && !slices.Contains(allowed, "number"):
		return whole(v), nil
	}
	return v, nil
}

// typesOf are the types that a schema allows, and false if that is in doubt. A schema that
// says nothing takes objects and lists, as far as text is concerned.
func typesOf(s map[string]any) (types []string, known bool) {
	switch t := s["type"].(type) {
	case string:
		return []string{t}, true
	case []any:
		for _, one := range t {
			name, _ := one.(string)
			types = append(types, name)
		}
		return types, true
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "$ref", "$dynamicRef", "if", "not", "enum", "const"} {
		if s[keyword] != nil {
			return nil, false
		}
	}
	return []string{"object", "array"}, true
}

func listOfStrings(s map[string]any, allowed []string) bool {
	items, _ := s["items"].(map[string]any)
	return slices.Equal(allowed, []string{"array"}) && items["type"] == "string"
}

// opened is the value that a text holds as JSON, or nil if it holds none of these types.
func (r *opening) opened(v json.RawMessage, allowed []string) (json.RawMessage, error) {
	var text string
	if !r.mayHold(v, allowed) || json.Unmarshal(v, &text) != nil {
		return nil, nil //nolint:nilerr // it stays as it is
	}
	r.bytes += len(text)
	if r.values += countValues(text); r.bytes > MaxOpened || r.values > maxOpenedValues {
		return nil, fmt.Errorf("JSON as text is taken up to %d bytes and %d values in all: send the value itself, or less", MaxOpened, maxOpenedValues)
	}
	inner, err := DecodeOne([]byte(text))
	if err != nil {
		return nil, nil //nolint:nilerr // it stays a text
	}
	if slices.Contains(allowed, typeName(inner[0])) {
		return inner, nil
	}
	if number := whole(inner); slices.Contains(allowed, "integer") && isWhole(number) {
		return number, nil
	}
	return nil, nil
}

// mayHold reports by its first character whether a text may hold a value of the types.
func (r *opening) mayHold(v json.RawMessage, allowed []string) bool {
	begin := bytes.TrimLeft(v[1:], space)
	for bytes.HasPrefix(begin, []byte(`\n`)) || bytes.HasPrefix(begin, []byte(`\t`)) || bytes.HasPrefix(begin, []byte(`\r`)) {
		begin = bytes.TrimLeft(begin[2:], space)
	}
	if len(begin) == 0 || begin[0] == '\\' || begin[0] == '"' {
		return false
	}
	name := typeName(begin[0])
	return slices.Contains(allowed, name) || name == "number" && slices.Contains(allowed, "integer")
}

// typeName is the type in JSON Schema of the value that begins so.
func typeName(first byte) string {
	switch first {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// countValues is how many values a JSON text has at most: what it costs to decode.
func countValues(text string) int {
	return strings.Count(text, ",") + strings.Count(text, "{") + strings.Count(text, "[")
}

// whole is a number without its point or exponent, if it is a whole one of 64 bits.
func whole(v json.RawMessage) json.RawMessage {
	if isWhole(v) || typeName(v[0]) != "number" || checkNumber(string(v)) != nil {
		return v
	}
	exact, ok := new(big.Rat).SetString(string(v))
	if !ok || !exact.IsInt() || !exact.Num().IsInt64() {
		return v
	}
	return json.RawMessage(exact.Num().String())
}

func isWhole(v json.RawMessage) bool {
	digits := bytes.TrimPrefix(v, []byte("-"))
	return len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

func (r *opening) object(s map[string]any, v json.RawMessage) (json.RawMessage, error) {
	properties, _ := s["properties"].(map[string]any)
	if len(properties) == 0 && s["additionalProperties"] == nil {
		return v, nil
	}
	members, ok := Members(v)
	if !ok {
		return v, nil
	}
	required, _ := s["required"].([]any)
	kept, changed := members[:0:0], false
	for _, m := range members {
		schema, declared := properties[m.Key]
		if !declared {
			schema = s["additionalProperties"]
			if _, described := schema.(map[string]any); !described {
				kept = append(kept, m)
				continue
			}
		}
		if declared && !slices.Contains(required, any(m.Key)) && saysAbsent(schema, m.Value) {
			changed = true
			continue
		}
		read, err := r.value(schema, m.Value)
		if err != nil {
			return nil, err
		}
		changed = changed || !bytes.Equal(read, m.Value)
		m.Value = read
		kept = append(kept, m)
	}
	if !changed {
		return v, nil
	}
	return ObjectOf(kept), nil
}

// saysAbsent reports whether the value of a member that may be absent says that it
// is: null or an empty text, where the schema does not allow it.
func saysAbsent(schema any, v json.RawMessage) bool {
	s, _ := schema.(map[string]any)
	allowed, known := typesOf(s)
	if !known || s["type"] == nil {
		return false
	}
	switch string(v) {
	case "null":
		return !slices.Contains(allowed, "null")
	case `""`:
		if !slices.Contains(allowed, "string") {
			return true
		}
		least := fmt.Sprint(s["minLength"]) // a number of either decoder
		choices, limited := s["enum"].([]any)
		return s["minLength"] != nil && least != "0" || limited && !slices.Contains(choices, any(""))
	}
	return false
}

func (r *opening) list(s map[string]any, v json.RawMessage) (json.RawMessage, error) {
	items, described := s["items"].(map[string]any)
	entries, ok := elements(v)
	if !described || !ok {
		return v, nil
	}
	changed := false
	for i, entry := range entries {
		read, err := r.value(items, entry)
		if err != nil {
			return nil, err
		}
		changed = changed || !bytes.Equal(read, entry)
		entries[i] = read
	}
	if !changed {
		return v, nil
	}
	return slices.Concat(json.RawMessage("["), bytes.Join(asBytes(entries), []byte(",")), json.RawMessage("]")), nil
}

func asBytes(values []json.RawMessage) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}
