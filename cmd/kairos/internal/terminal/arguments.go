package terminal

import (
	"encoding/json"
	"slices"
)

// typeJSON is the type of a field whose value is typed as JSON.
const typeJSON = "json"

// missingArguments are the arguments that a tool requires and that are not given,
// as fields to ask for. The tool itself checks an argument whose schema no form
// can express.
func missingArguments(tool json.RawMessage, given map[string]any) []field {
	var top struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(tool, &top) != nil {
		return nil // the tool's own error says more
	}
	var missing []field
	for _, name := range slices.Compact(top.Required) {
		if _, ok := given[name]; ok {
			continue
		}
		fd, err := parseField(name, top.Properties[name])
		var shown fieldSchema
		_ = json.Unmarshal(top.Properties[name], &shown) // says nothing if it is not a schema
		if err != nil || fd.typ == "array" && !shown.hasTexts() {
			fd = field{name: name, title: shown.Title, description: shown.Description, typ: typeJSON}
		}
		fd.required = true
		missing = append(missing, fd)
	}
	return missing
}

// hasTexts: the array's items are texts, which can be typed with commas between them.
func (s fieldSchema) hasTexts() bool { return s.Items != nil && s.Items.Type == "string" }
