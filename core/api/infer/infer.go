// Package infer makes JSON Schemas of the structs of package api. Objects stay
// open and nothing is referenced: every schema is one whole document.
//
// The jsonschema tag of a field is its description; that of a blank field
// describes the struct wherever a field of it has no description. The schema tag
// holds keywords, separated by blanks: pattern, minLength, minItems, maxItems,
// minimum, maximum, enum and type as keyword=value (several values of enum and
// type separated by |), and
//
//	uri       a kairos://mem/ URI
//	required  although the field may be left out of the JSON of Go
//	optional  although it never is
//	opaque    an object about which nothing more is said
//
// The prefix "items." is for the items of a slice.
package infer

import (
	"encoding/json"
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
			inner.Description = p.Description
			p, s.Properties[name] = inner, inner
		} else if err := refine(p, f.Type); err != nil {
			return err
		}
		if f.Type.Kind() != reflect.Pointer || strings.Contains(options, "omit") {
			notNull(p)
		}
		if p.Description == "" {
			p.Description = about(f.Type)
		}
		if err := bound(s, name, f.Tag.Get("schema")); err != nil {
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
	return blank.Tag.Get("jsonschema")
}

// bound applies the schema tag of a property.
func bound(s *jsonschema.Schema, name, tag string) error {
	for _, rule := range strings.Fields(tag) {
		at := s.Properties[name]
		rule, items := strings.CutPrefix(rule, "items.")
		if items {
			at = at.Items
		}
		keyword, value, _ := strings.Cut(rule, "=")
		var err error
		switch keyword {
		case "required":
			s.Required = append(s.Required, name)
		case "optional":
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		case "opaque":
			*at = jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, Description: at.Description}
		case "uri":
			at.Pattern = uriPattern
		case "pattern":
			at.Pattern = value
		case "enum":
			Schema{at}.SetEnum(strings.Split(value, "|"))
		case "type":
			at.Type, at.Types = "", strings.Split(value, "|")
		case "minLength":
			at.MinLength, err = whole(value)
		case "minItems":
			at.MinItems, err = whole(value)
		case "maxItems":
			at.MaxItems, err = whole(value)
		case "minimum":
			at.Minimum, err = number(value)
		case "maximum":
			at.Maximum, err = number(value)
		default:
			err = fmt.Errorf("there is no keyword %q", keyword)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func whole(s string) (*int, error) {
	n, err := strconv.Atoi(s)
	return &n, err
}

func number(s string) (*float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	return &n, err
}
