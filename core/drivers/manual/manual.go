// Package manual writes the manual page of a driver: Markdown from its descriptor. It
// starts no driver and knows no type of challenge.
package manual

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Page is the manual page of a driver. The heading has the level, 1 for a page of its
// own. A descriptor is text of a stranger: it is made safe to show.
func Page(d driver.Descriptor, level int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n%s driver, version %s.\n\n| | |\n|---|---|\n", strings.Repeat("#", level), cell(d.Name), d.Role, cell(d.Version))
	sends := make([]string, len(d.Sends)) // without any it may send what MCP defines, which says nothing of it
	for i, m := range d.Sends {
		sends[i] = m.Method
	}
	for _, fact := range [][2]string{
		{"handles", strings.Join(d.Handles, ", ")}, {"effect", string(d.Effect)}, {"features", strings.Join(d.Features, ", ")},
		{"needs", strings.Join(d.Needs, ", ")}, {"sends", strings.Join(sends, ", ")}, {"approval", string(d.Approval)},
		{"transport", cmp.Or(string(d.Transport), "grpc")}, {"state versions", strings.Trim(fmt.Sprint(d.StateVersions), "[]")},
	} {
		if fact[1] != "" {
			row(&b, fact[0], fact[1])
		}
	}
	if d.Role == driver.RoleChallenge {
		writeChallenge(&b, d)
	}
	if config := Read(d.ConfigSchema); len(config.Properties) > 0 {
		b.WriteString("\nConfiguration, below `drivers.settings." + d.Name + ".config`:\n\n")
		config.table(&b)
	} else {
		b.WriteString("\nTakes no configuration.\n")
	}
	return b.String()
}

func writeChallenge(b *strings.Builder, d driver.Descriptor) {
	for _, handled := range d.Handles {
		name := "`challenge." + handled + "`"
		switch params := Read(d.ParamsSchema); {
		case d.ParamsSchema == nil:
			b.WriteString("\nThe driver does not say which parameters " + name + " has; `kairos lint` asks it.\n")
			continue
		case len(params.Properties) == 0:
			b.WriteString("\nParameters of " + name + ": none.\n")
		default:
			b.WriteString("\nParameters in " + name + ":\n\n")
			params.table(b)
		}
		fmt.Fprintf(b, "\n```json\n%s\n```\n", Example(d, handled))
	}
	switch output := Read(d.OutputSchema); {
	case len(output.Properties) > 0:
		b.WriteString("\nOutput, which later steps read as `{{ steps.NAME.KEY }}` unless the step has an `output_schema`:\n\n")
		output.table(b)
	default:
		b.WriteString("\nOutput: what the step's `output_schema` says.\n")
	}
}

// Example is the smallest challenge of a type that its schema allows.
func Example(d driver.Descriptor, handled string) string {
	params := map[string]any{}
	schema := Read(d.ParamsSchema)
	for _, key := range schema.Required {
		params[key] = schema.Properties[key].example()
	}
	own, err := json.Marshal(params)
	if err != nil {
		return "" // cannot be: the values were JSON
	}
	return plain.Line(fmt.Sprintf(`{"challenge": {"type": %q, %q: %s}}`, handled, handled, own))
}

// Keys names the members that a schema has, the required ones marked.
func Keys(text json.RawMessage) []string {
	schema := Read(text)
	keys := slices.Sorted(maps.Keys(schema.Properties))
	for i, key := range keys {
		if keys[i] = plain.Line(key); slices.Contains(schema.Required, key) {
			keys[i] += " (required)"
		}
	}
	return keys
}

// Schema is what a page reads of a JSON Schema.
type Schema struct {
	Type        any               `json:"type"` // a name or a list of names
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Enum        []any             `json:"enum"`
	Minimum     json.RawMessage   `json:"minimum"`
	Maximum     json.RawMessage   `json:"maximum"`
	Required    []string          `json:"required"`
	WriteOnly   bool              `json:"writeOnly"`
	Properties  map[string]Schema `json:"properties"`
	Items       *Schema           `json:"items"`
}

// Read reads a schema of a descriptor; what cannot be read says nothing.
func Read(text json.RawMessage) Schema {
	var s Schema
	_ = json.Unmarshal(text, &s)
	return s
}

func (s Schema) table(b *strings.Builder) {
	b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
	s.rows(b, "")
}

func (s Schema) rows(b *strings.Builder, prefix string) {
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		if len(p.Properties) > 0 {
			p.rows(b, prefix+key+".")
			continue
		}
		preset := "none"
		switch {
		case len(p.Default) > 0:
			preset = "`" + strings.Trim(string(p.Default), `"`) + "`"
		case slices.Contains(s.Required, key):
			preset = "required"
		}
		meaning := p.Description
		if p.WriteOnly {
			meaning += " (secret)"
		}
		row(b, "`"+prefix+key+"`", p.words(), preset, meaning)
	}
}

// words are the type with its bounds.
func (s Schema) words() string {
	names := "any"
	if s.Type != nil {
		names = strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Type), "[]"), " ", " or ")
	}
	switch low, high := string(s.Minimum), string(s.Maximum); {
	case len(s.Enum) > 0:
		names += ": " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Enum), " ", ", "), "[]")
	case low != "" && high != "":
		names += ", " + low + " to " + high
	case low != "":
		names += ", at least " + low
	case high != "":
		names += ", at most " + high
	case s.Items != nil && s.Items.Type != nil:
		names += " of " + s.Items.words()
	}
	return names
}

// example is a value of the type.
func (s Schema) example() any {
	switch {
	case len(s.Default) > 0:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	}
	return "..."
}

func row(b *strings.Builder, cells ...string) {
	for i, c := range cells {
		cells[i] = cell(c)
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// cell is a text on one line that ends no cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(plain.Line(plain.Clip(text, 2000)), "|", `\|`), "<", "&lt;")
}
