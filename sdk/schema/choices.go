package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Titles says what the choices of a field are called.
type Titles struct {
	Field   string // its title, or its name
	Choices string // as of Choices
}

// choices is what of a field names its choices.
type choices struct {
	Title string            `json:"title"`
	Enum  []json.RawMessage `json:"enum"`
	OneOf []titled          `json:"oneOf"`
	AnyOf []titled          `json:"anyOf"` // of the items of a list
	Items *choices          `json:"items"`
}

type titled struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// Choices lists the choices of a form's field, or of the items of a list, as a text that
// people and agents read: each value in JSON, with its title if it has one, such as
// "r1" = Large room, "r2" = Garden. It is empty for a field without choices.
func Choices(field json.RawMessage) string {
	var c choices
	if json.Unmarshal(field, &c) != nil {
		return ""
	}
	if c.Items != nil {
		c = *c.Items
	}
	var said []string
	if c.OneOf == nil { // else these are the values, too
		for _, value := range c.Enum {
			said = append(said, string(value))
		}
	}
	for _, t := range append(c.OneOf, c.AnyOf...) {
		if t.Const == nil {
			continue
		}
		if t.says() {
			said = append(said, string(t.Const)+" = "+plain.Line(t.Title))
			continue
		}
		said = append(said, string(t.Const))
	}
	return strings.Join(said, ", ")
}

// says reports whether the title says more than the value.
func (t titled) says() bool {
	return t.Title != "" && t.Title != strings.Trim(string(t.Const), `"`)
}

// enumField is a field of titled choices with their values alone.
func enumField(field map[string]any) map[string]any {
	shown := maps.Clone(field)
	delete(shown, "oneOf")
	values, _ := field["enum"].([]any)
	if values != nil {
		return shown // the enum limits the choices already
	}
	titled, _ := field["oneOf"].([]any)
	for _, c := range titled {
		choice, _ := c.(map[string]any)
		values = append(values, choice["const"])
	}
	shown["enum"] = values
	return shown
}

// showing is the schema with other fields in the places of its own, and what the choices
// are called whose titles these do not show. All other text stays as it is written:
// clients show fields in their order.
func showing(schema json.RawMessage, shown map[string]any) (json.RawMessage, []Titles, error) {
	if len(shown) == 0 {
		return schema, nil, nil
	}
	one, err := fields.DecodeOne(schema)
	if err != nil {
		return nil, nil, err
	}
	var titles []Titles
	top, _ := fields.Members(one)
	for i, member := range top {
		if member.Key != "properties" {
			continue
		}
		properties, _ := fields.Members(member.Value)
		for j, p := range properties {
			field, changed := shown[p.Key]
			if !changed {
				continue
			}
			titles = append(titles, untold(p, field)...)
			if properties[j].Value, err = marshal(field); err != nil {
				return nil, nil, err
			}
		}
		top[i].Value = fields.ObjectOf(properties)
	}
	return fields.ObjectOf(top), titles, nil
}

// untold names the choices of a field that is shown as an enum and has titles.
func untold(p fields.Member, shown any) []Titles {
	var c choices
	if field, _ := shown.(map[string]any); field["enum"] == nil || json.Unmarshal(p.Value, &c) != nil || !slices.ContainsFunc(c.OneOf, titled.says) {
		return nil
	}
	return []Titles{{Field: cmp.Or(plain.Line(c.Title), plain.Line(p.Key)), Choices: Choices(p.Value)}}
}

func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
