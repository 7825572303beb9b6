package shape

import (
	"encoding/json"
	"fmt"
	"strings"
)

// durationPattern is the form of durations: narrower than time.ParseDuration,
// so that a pattern can say it and no value is out of range.
const durationPattern = `^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,4}$`

// document is a JSON Schema. Its fields stand in the order people read.
type document struct {
	Type        string          `json:"type"`
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	WriteOnly   bool            `json:"writeOnly,omitempty"`

	Minimum       json.RawMessage `json:"minimum,omitempty"`
	Maximum       json.RawMessage `json:"maximum,omitempty"`
	MinLength     json.RawMessage `json:"minLength,omitempty"`
	MaxLength     json.RawMessage `json:"maxLength,omitempty"`
	MinItems      json.RawMessage `json:"minItems,omitempty"`
	MaxItems      json.RawMessage `json:"maxItems,omitempty"`
	MinProperties json.RawMessage `json:"minProperties,omitempty"`
	MaxProperties json.RawMessage `json:"maxProperties,omitempty"`

	Items      *document `json:"items,omitempty"`
	Properties members   `json:"properties,omitempty"`
	Required   []string  `json:"required,omitempty"`
	// Additional is false for objects and a schema for dictionaries.
	Additional any `json:"additionalProperties,omitempty"`
}

// members keep the order of the struct, in which clients show a form.
type members []member

type member struct {
	name   string
	schema document
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(m))
	for i, one := range m {
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		parts[i] = string(name) + ":" + string(schema)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

func (n *node) schema() document {
	d := document{Type: typeNames[n.form], Enum: n.enum}
	low, high := n.limits(&d)
	if low != nil && n.min != nil {
		*low = json.RawMessage(n.min.literal)
	}
	if high != nil && n.max != nil {
		*high = json.RawMessage(n.max.literal)
	}
	switch n.form {
	case duration:
		d.Pattern = durationPattern
	case list:
		items := n.elem.schema()
		d.Items = &items
	case dictionary:
		d.Additional = n.elem.schema()
	case object:
		d.Additional = false
		d.Properties = members{}
		for _, f := range n.members {
			d.Properties = append(d.Properties, member{f.name, f.schema()})
			if f.required {
				d.Required = append(d.Required, f.name)
			}
		}
	}
	return d
}

var typeNames = map[form]string{
	text: "string", boolean: "boolean", whole: "integer", number: "number", duration: "string",
	list: "array", dictionary: "object", object: "object",
}

// limits are the keywords that hold the bounds, nil where there are none.
func (n *node) limits(d *document) (low, high *json.RawMessage) {
	switch n.form {
	case text:
		return &d.MinLength, &d.MaxLength
	case whole, number:
		return &d.Minimum, &d.Maximum
	case list:
		return &d.MinItems, &d.MaxItems
	case dictionary:
		return &d.MinProperties, &d.MaxProperties
	}
	return nil, nil
}

func (f field) schema() document {
	d := f.node.schema()
	d.Description, d.Default, d.WriteOnly = f.doc, f.fallback, f.secret
	if f.node.form == duration {
		d.Description = strings.TrimSpace(d.Description + f.node.between())
	}
	return d
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
