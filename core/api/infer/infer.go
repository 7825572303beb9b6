// Package infer makes JSON Schemas of the structs of package api. Objects stay
// open and nothing is referenced: every schema is one whole document.
//
// The tags are those of sdk/settings, as far as a schema has them: doc is the description of
// a field (that of a blank field describes the struct wherever a field of it has none), min and
// max bound a number or a length, enum lists the values with commas between them. Beyond these:
//
//	required  "true" although the field may be left out of the JSON of Go, "false"
//	          although it never is
//	pattern   a regular expression
//	form      "uri": a kairos://mem/ URI; "opaque": an object about which nothing more is
//	          said; "null": an object or null
//	items     the tags min and form for the items of a slice, such as "min=1" or "uri"
package infer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/kairos-mcp/kairos/core/api"
)

const uriPattern = "^kairos://mem/[0-9a-fA-F-]{36}$"

// Schema is the schema of one request or reply. Its JSON names properties in the
// order of the struct.
type Schema struct{ root *jsonschema.Schema }

// MarshalJSON implements json.Marshaler.
func (s Schema) MarshalJSON() ([]byte, error) { return json.Marshal(s.root) }

// At returns the schema of a property.
func (s Schema) At(property string) (Schema, error) {
	if p := s.root.Properties[property]; p != nil {
		return Schema{p}, nil
	}
	return Schema{}, fmt.Errorf("schema: there is no property %q", property)
}

// Properties lists the names of the properties.
func (s Schema) Properties() []string { return slices.Clone(s.root.PropertyOrder) }

// SetEnum sets the only values that are allowed.
func (s Schema) SetEnum(values []string) {
	s.root.Enum = nil
	for _, v := range values {
		s.root.Enum = append(s.root.Enum, v)
	}
}

// Request returns the schema of a request.
func Request[T any]() (Schema, error) {
	s, err := of(reflect.TypeFor[T]())
	return Schema{s}, err
}

// Reply returns the schema of a reply: of a success or of a failure.
func Reply[T any]() (Schema, error) {
	s, err := of(reflect.TypeFor[T]())
	if err != nil {
		return Schema{}, err
	}
	var zero T
	failure := any(api.Failure{})
	if f, ok := any(zero).(api.Failing); ok {
		failure = f.Failure()
	}
	failed, err := of(reflect.TypeOf(failure))
	if err != nil {
		return Schema{}, err
	}
	for _, name := range failed.PropertyOrder {
		if s.Properties[name] == nil {
			s.Properties[name] = failed.Properties[name]
			s.PropertyOrder = append(s.PropertyOrder, name)
		}
	}
	s.AnyOf = []*jsonschema.Schema{{Required: s.Required}, {Required: failed.Required}}
	s.Required = nil
	return Schema{s}, nil
}

// anything is the schema of JSON that has no struct.
var anything = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}

func of(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: anything})
	if err != nil {
		return nil, err
	}
	return s, refine(s, t)
}

// refine applies what the library does not know to the schema of a type.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s.Items != nil && t.Kind() == reflect.Slice:
		notNull(s.Items)
		return refine(s.Items, t.Elem())
	case s.Properties == nil || t.Kind() != reflect.Struct:
		return nil
	}
	s.AdditionalProperties = nil
	var shapes map[string]any
	if shaped, ok := reflect.Zero(t).Interface().(api.Shaped); ok {
		shapes = shaped.Shapes()
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if f.Anonymous || p == nil {
			continue
		}
		if shape := shapes[name]; shape != nil {
			inner, err := of(reflect.TypeOf(shape))
			if err != nil {
				return err
			}
			p, s.Properties[name] = inner, inner
		} else if err := refine(p, f.Type); err != nil {
			return err
		}
		if f.Type.Kind() != reflect.Pointer || strings.Contains(options, "omit") {
			notNull(p)
		}
		if p.Description = f.Tag.Get("doc"); p.Description == "" {
			p.Description = about(f.Type)
		}
		if err := bound(s, name, f.Tag); err != nil {
			return fmt.Errorf("schema of %s.%s: %w", t, f.Name, err)
		}
	}
	return nil
}

// notNull takes null, which the library allows for slices and pointers, from the types.
func notNull(s *jsonschema.Schema) {
	s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" })
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
}

// about is the description of a struct.
func about(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	blank, _ := t.FieldByName("_")
	return blank.Tag.Get("doc")
}

// bound applies the tags of a property.
func bound(s *jsonschema.Schema, name string, tag reflect.StructTag) error {
	at := s.Properties[name]
	for key, apply := range map[string]func(value string) error{
		"min": func(v string) error { return limit(at, v, &at.MinLength, &at.MinItems, &at.Minimum) },
		"max": func(v string) error { return limit(at, v, &at.MaxLength, &at.MaxItems, &at.Maximum) },
		"enum": func(v string) error {
			Schema{at}.SetEnum(strings.Split(v, ","))
			return nil
		},
		"pattern":  func(v string) error { at.Pattern = v; return nil },
		"form":     func(v string) error { return form(at, v) },
		"items":    func(v string) error { return items(at.Items, v) },
		"required": func(v string) error { return require(s, name, v) },
		"schema":   misnamed, "jsonschema": misnamed,
	} {
		if value, ok := tag.Lookup(key); ok {
			if err := apply(value); err != nil {
				return fmt.Errorf("tag %s: %w", key, err)
			}
		}
	}
	return nil
}

func misnamed(string) error { return errors.New("it is not read; see package infer") }

// limit sets the keyword that bounds a value of the type.
func limit(at *jsonschema.Schema, value string, length, items **int, number **float64) error {
	if at.Type == "integer" || at.Type == "number" || slices.Contains(at.Types, "number") {
		n, err := strconv.ParseFloat(value, 64)
		*number = &n
		return err
	}
	n, err := strconv.Atoi(value)
	switch at.Type {
	case "string":
		*length = &n
	case "array":
		*items = &n
	default:
		return fmt.Errorf("a value of type %q has none", at.Type)
	}
	return err
}

func form(at *jsonschema.Schema, value string) error {
	switch value {
	case "uri":
		at.Pattern = uriPattern
	case "opaque":
		*at = jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, Description: at.Description}
	case "null":
		at.Type, at.Types = "", []string{"object", "null"}
	default:
		return fmt.Errorf("there is no form %q", value)
	}
	return nil
}

func items(at *jsonschema.Schema, value string) error {
	if n, ok := strings.CutPrefix(value, "min="); ok {
		return limit(at, n, &at.MinLength, &at.MinItems, &at.Minimum)
	}
	return form(at, value)
}

func require(s *jsonschema.Schema, name, value string) error {
	s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
	switch value {
	case "true":
		s.Required = append(s.Required, name)
	case "false":
	default:
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}
