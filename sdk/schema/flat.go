package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

var (
	formKeys = []string{"$schema", "$id", "$comment", "type", "properties", "required", "title", "description", "additionalProperties"}

	fieldKeys = []string{
		"$comment", "type", "title", "description", "default", "examples", "enum", "enumNames", "const",
		"minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"multipleOf", "oneOf",
	}
	fieldTypes   = []string{"string", "number", "integer", "boolean"}
	fieldFormats = []string{"email", "uri", "date", "date-time"}
)

// Flat returns nil when the schema is a flat form as MCP elicitation requires:
// an object of at least one string, number, integer, boolean or choice.
func Flat(schema json.RawMessage) error {
	doc, err := decode(schema)
	if err != nil {
		return err
	}
	form, ok := doc.(map[string]any)
	if !ok || form["type"] != "object" {
		return errors.New(`a form needs "type": "object"`)
	}
	if err := onlyKeys(form, formKeys); err != nil {
		return fmt.Errorf("a form %w", err)
	}
	if extra, found := form["additionalProperties"]; found {
		if _, isBool := extra.(bool); !isBool {
			return errors.New("a form cannot have a schema in additionalProperties")
		}
	}
	fields, _ := form["properties"].(map[string]any)
	if len(fields) == 0 {
		return errors.New("a form needs at least one property")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if strings.ContainsFunc(name, plain.Hidden) {
			return fmt.Errorf("the name of field %q has characters that a person cannot see", plain.Line(name))
		}
		if err := flatField(fields[name]); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	_, err = Compile(schema)
	return err
}

func flatField(v any) error {
	field, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be a schema object")
	}
	typ, _ := field["type"].(string)
	if !slices.Contains(fieldTypes, typ) {
		return fmt.Errorf("type must be one of %s", strings.Join(fieldTypes, ", "))
	}
	if err := onlyKeys(field, fieldKeys); err != nil {
		return err
	}
	if format, found := field["format"]; found {
		if name, _ := format.(string); !slices.Contains(fieldFormats, name) {
			return fmt.Errorf("format must be one of %s", strings.Join(fieldFormats, ", "))
		}
	}
	if err := flatChoices(field["oneOf"]); err != nil {
		return err
	}
	return typedChoices(typ, field)
}

// typedChoices judges the values that can be chosen: one of another type than
// the field's cannot be sent, and a list or an object cannot be shown.
func typedChoices(typ string, field map[string]any) error {
	choices, _ := field["enum"].([]any)
	if fixed, found := field["const"]; found {
		choices = append(slices.Clone(choices), fixed)
	}
	titled, _ := field["oneOf"].([]any)
	for _, c := range titled {
		choices = append(slices.Clone(choices), c.(map[string]any)["const"]) // flatChoices has seen it
	}
	if len(choices) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"type": typ})
	if err != nil {
		return err
	}
	for _, c := range choices {
		if text, _ := c.(string); strings.ContainsFunc(text, plain.Hidden) {
			return fmt.Errorf("%.80q cannot be chosen: it has characters that a person cannot see", plain.Line(text))
		}
		value, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if len(Validate(b, value)) > 0 {
			return fmt.Errorf("%.80s cannot be chosen: it is not of type %s", value, typ)
		}
	}
	return nil
}

// flatChoices judges the titled choices {"const": ..., "title": ...} of a field.
func flatChoices(v any) error {
	if v == nil {
		return nil
	}
	choices, ok := v.([]any)
	if !ok {
		return errors.New("oneOf must be a list of titled choices")
	}
	for _, c := range choices {
		choice, ok := c.(map[string]any)
		if !ok {
			return errors.New("oneOf must be a list of titled choices")
		}
		if _, found := choice["const"]; !found {
			return errors.New(`each choice in oneOf needs "const"`)
		}
		if err := onlyKeys(choice, []string{"const", "title", "description"}); err != nil {
			return fmt.Errorf("a choice %w", err)
		}
	}
	return nil
}

func onlyKeys(object map[string]any, allowed []string) error {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(allowed, key) {
			return fmt.Errorf("cannot use the keyword %q", key)
		}
	}
	return nil
}
