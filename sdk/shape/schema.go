package shape

import (
	"encoding/json"
	"fmt"
	"strings"
)

// durationPattern is the form of durations: narrower than time.ParseDuration,
// so that a pattern can say it and no value is out of range.
const durationPattern = `^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,4}$`

// Schema is a JSON Schema. Its fields stand in the order in which they are encoded.
type Schema struct {
	Type       any        `json:"type,omitempty"` // a string or []string
	Properties Properties `json:"properties,omitzero"`
	Items      *Schema    `json:"items,omitempty"`

	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	WriteOnly   bool            `json:"writeOnly,omitempty"`
	Enum        []string        `json:"enum,omitempty"`

	Minimum       json.RawMessage `json:"minimum,omitempty"`
	Maximum       json.RawMessage `json:"maximum,omitempty"`
	MinLength     json.RawMessage `json:"minLength,omitempty"`
	MaxLength     json.RawMessage `json:"maxLength,omitempty"`
	Pattern       string          `json:"pattern,omitempty"`
	MinItems      json.RawMessage `json:"minItems,omitempty"`
	MaxItems      json.RawMessage `json:"maxItems,omitempty"`
	MinProperties json.RawMessage `json:"minProperties,omitempty"`
	MaxProperties json.RawMessage `json:"maxProperties,omitempty"`

	Required []string `json:"required,omitempty"`
	// AdditionalProperties is false, true for an object of which nothing more is said, or
	// the *Schema of the values of a dictionary.
	AdditionalProperties any       `json:"additionalProperties,omitempty"`
	AnyOf                []*Schema `json:"anyOf,omitempty"`
}

// JSON returns the text of the schema.
func (s *Schema) JSON() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encode a JSON Schema: %v", err)) // cannot be: all parts are JSON
	}
	return text
}

// Properties keep the order of the struct, in which clients show a form.
type Properties []Property

// Property is a member of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Named returns the schema of a property, or nil.
func (p Properties) Named(name string) *Schema {
	for _, one := range p {
		if one.Name == name {
			return one.Schema
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (p Properties) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(p))
	for i, one := range p {
		name, err := json.Marshal(one.Name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(one.Schema)
		if err != nil {
			return nil, err
		}
		parts[i] = string(name) + ":" + string(schema)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

func (n *node) schema() *Schema {
	s := &Schema{Enum: n.enum, Pattern: n.pattern}
	if n.types != nil {
		s.Type = n.types
	} else if n.form != anything {
		s.Type = typeNames[n.form]
	}
	if n.opaque {
		s.AdditionalProperties = true
		return s
	}
	low, high := n.limits(s)
	if low != nil && n.min != nil {
		*low = json.RawMessage(n.min.literal)
	}
	if high != nil && n.max != nil {
		*high = json.RawMessage(n.max.literal)
	}
	switch n.form {
	case duration:
		s.Pattern = durationPattern
	case list:
		s.Items = n.elem.schema()
	case dictionary:
		s.AdditionalProperties = n.elem.schema()
	case object:
		n.addMembers(s)
	}
	return s
}

func (n *node) addMembers(s *Schema) {
	if !n.open {
		s.AdditionalProperties = false
	}
	if n.members != nil {
		s.Properties = Properties{}
	}
	for _, f := range n.members {
		s.Properties = append(s.Properties, Property{f.name, f.schema()})
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
}

var typeNames = map[form]string{
	text: "string", boolean: "boolean", whole: "integer", number: "number", duration: "string",
	list: "array", dictionary: "object", object: "object",
}

// limits are the keywords that hold the bounds, nil where there are none.
func (n *node) limits(s *Schema) (low, high *json.RawMessage) {
	switch n.form {
	case text:
		return &s.MinLength, &s.MaxLength
	case whole, number:
		return &s.Minimum, &s.Maximum
	case list:
		return &s.MinItems, &s.MaxItems
	case dictionary:
		return &s.MinProperties, &s.MaxProperties
	}
	return nil, nil
}

func (f field) schema() *Schema {
	s := f.node.schema()
	s.Description, s.Default, s.WriteOnly = f.doc, f.fallback, f.secret
	if f.node.form == duration {
		s.Description = strings.TrimSpace(s.Description + f.node.between())
	}
	return s
}

// between tells the bounds of a duration, for which JSON Schema has no keyword.
func (n *node) between() string {
	switch {
	case n.min != nil && n.max != nil:
		return fmt.Sprintf(" (from %s to %s)", n.min.literal, n.max.literal)
	case n.min != nil:
		return fmt.Sprintf(" (at least %s)", n.min.literal)
	case n.max != nil:
		return fmt.Sprintf(" (at most %s)", n.max.literal)
	}
	return ""
}
