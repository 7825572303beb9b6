package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Sample is a configuration file with every key, its meaning and its default, all
// of it in comments.
func Sample() (string, error) {
	schema, err := orderedSchema()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`# Configuration of KAIROS. Every key is a comment: remove the # from what you change,
# and from the keys that it belongs to. kairos config check finds mistakes.
`)
	writeSample(&b, "", schema)
	return b.String(), nil
}

func orderedSchema() (yaml.MapSlice, error) {
	var schema yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(Schema, &schema, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the schema of the configuration: %w", err)
	}
	return schema, nil
}

// writeSample writes the keys of an object of the schema.
func writeSample(b *strings.Builder, indent string, object yaml.MapSlice) {
	properties, _ := member(object, "properties").(yaml.MapSlice)
	for _, p := range properties {
		of, _ := p.Value.(yaml.MapSlice)
		if indent == "" {
			b.WriteString("\n")
		}
		if meaning, ok := member(of, "description").(string); ok {
			for _, line := range wrap(meaning, sampleWidth-len(indent)) {
				fmt.Fprintf(b, "%s# %s\n", indent, line)
			}
		}
		each, byName := member(of, "additionalProperties").(yaml.MapSlice)
		switch {
		case byName:
			fmt.Fprintf(b, "#%s%s:\n#%s  NAME:\n", indent, p.Key, indent)
			writeSample(b, indent+"    ", each)
		case member(of, "properties") != nil:
			fmt.Fprintf(b, "#%s%s:\n", indent, p.Key)
			writeSample(b, indent+"  ", of)
		default:
			fmt.Fprintf(b, "#%s%s:%s\n", indent, p.Key, preset(of))
		}
	}
}

// sampleWidth is where comments are wrapped.
const sampleWidth = 90

// preset is the default of a key behind its colon; empty: no constant is.
func preset(of yaml.MapSlice) string {
	value := member(of, "default")
	if value == nil {
		return ""
	}
	text, err := yaml.MarshalWithOptions(value, yaml.Flow(true))
	if err != nil {
		return ""
	}
	return " " + strings.TrimSpace(string(text))
}

func member(object yaml.MapSlice, name string) any {
	for _, m := range object {
		if m.Key == name {
			return m.Value
		}
	}
	return nil
}

// wrap breaks a text into lines of at most width bytes, where it has blanks.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}
