package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// CheckReferences reports templates that can never have a value: references to
// unknown steps, to the own or a later step, to undeclared inputs, and to paths
// that a declared schema rules out. It warns of paths that a schema does not name,
// and of text that looks like a template but is not one. In the text of a step all
// of these are warnings: nothing is filled there.
func CheckReferences(c Chain) []Diagnostic {
	known := c.declared()
	var found []Diagnostic
	for i, s := range c.Steps {
		var commands misplacing
		eachTemplate(s.Challenge, func(r Reference, at int, value string, in int) {
			if len(found) >= maxFindings {
				return
			}
			if why := r.impossible(i, known.position, known.inputs); why != "" {
				found = append(found, s.problemAt(at, r.Pointer, r.Text+": "+why))
			} else if why, sure := known.leadsNowhere(r); why != "" {
				d := s.problemAt(at, r.Pointer, r.Text+": "+c.describer(r, known.position)+why)
				if !sure {
					d.Severity = driver.SeverityWarning
				}
				found = append(found, d)
			}
			if why := commands.misplaced(s, r, value[:in]); why != "" {
				found = append(found, s.problemAt(at, r.Pointer, r.Text+": "+why))
			}
		})
		found = append(found, known.nearTemplates(s, maxFindings-len(found))...)
		found = append(found, known.checkText(i, maxFindings-len(found))...)
	}
	return found
}

func (r Reference) impossible(own int, position map[string]int, inputs map[string]bool) string {
	if r.Source == FromInput {
		if inputs != nil && !inputs[r.Path[0]] {
			return fmt.Sprintf("the protocol declares no input %q", r.Path[0])
		}
		return ""
	}
	at, ok := position[sameName(r.Step)]
	switch {
	case !ok:
		return fmt.Sprintf("the protocol has no step named %q", r.Step)
	case at == own:
		return "a step cannot use its own result"
	case at > own:
		return fmt.Sprintf("step %q comes later", r.Step)
	}
	return ""
}

// declaredInputs is nil if any input is allowed.
func declaredInputs(schema json.RawMessage) map[string]bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil || s.Properties == nil {
		return nil
	}
	out := make(map[string]bool, len(s.Properties))
	for name := range s.Properties {
		out[name] = true
	}
	return out
}

// misplacing finds the templates of a step that Fill would reject in a command.
type misplacing struct {
	pointer string // of the string that was read last
	command shellReader
	found   bool // a misplaced template was found; further ones add nothing
}

// misplaced says why Fill would reject the first template of a string that it would
// reject; empty otherwise. It is called for the templates in their order.
func (m *misplacing) misplaced(s Step, r Reference, before string) string {
	if escapingAt(s.Templates, r.Pointer) != driver.EscapeShell {
		return ""
	}
	if m.pointer != r.Pointer {
		*m = misplacing{pointer: r.Pointer}
	}
	if m.found {
		return ""
	}
	place := m.command.placeAfter(before)
	if m.found = place != ""; !m.found {
		return ""
	}
	return "values are quoted when they are put into a command, so a template cannot stand " + place
}

// leadsNowhere says why the path of a reference ends in the schema of the value
// that it starts at; see the function leadsNowhere.
func (d declared) leadsNowhere(r Reference) (why string, sure bool) {
	schema, known := d.schemas[r.Source+"."+r.Step]
	if !known {
		schema = d.chain.schemaOf(r, d.position)
		d.schemas[r.Source+"."+r.Step] = schema
	}
	why, sure = leadsNowhere(schema, r.Path)
	if sure && d.chain.declaredByDriver(r, d.position) {
		return why + instead(schema, r.Path), false // another driver may handle the type in a run
	}
	return why, sure
}

// schemaOf is the schema of the value that a reference starts at, decoded; nil:
// unknown.
func (c Chain) schemaOf(r Reference, position map[string]int) map[string]any {
	raw := c.Inputs
	if r.Source != FromInput {
		common, err := CommonOf(c.Steps[position[sameName(r.Step)]].Challenge)
		if err != nil {
			return nil // reported when the challenge is parsed
		}
		if raw = common.OutputSchema; len(raw) == 0 {
			raw = c.Steps[position[r.Step]].Output
		}
	}
	var schema map[string]any
	_ = json.Unmarshal(raw, &schema) // what is not an object says nothing
	return schema
}

// declaredByDriver reports whether the schema of a step's result is the driver's.
func (c Chain) declaredByDriver(r Reference, position map[string]int) bool {
	if r.Source == FromInput {
		return false
	}
	common, err := CommonOf(c.Steps[position[r.Step]].Challenge)
	return err == nil && len(common.OutputSchema) == 0
}

func (c Chain) describer(r Reference, position map[string]int) string {
	switch {
	case r.Source == FromInput:
		return "the declared input "
	case c.declaredByDriver(r, position):
		return "the result of the step "
	}
	return "the output_schema of the step "
}

// instead names what there is where a path ends.
func instead(schema map[string]any, path []string) string {
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if meant := fields.Suggestion(path[0], names); meant != "" {
		return meant
	}
	return "; it has " + strings.Join(names, ", ")
}

// combining are the keywords of schemas that a shape cannot represent.
var combining = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "prefixItems",
}

// leadsNowhere follows a path through a schema and says why it ends; sure: no
// valid value has anything there. It reports nothing for parts that the schema
// leaves open.
func leadsNowhere(schema map[string]any, path []string) (why string, sure bool) {
	for len(path) > 0 && !slices.ContainsFunc(combining, func(k string) bool { return schema[k] != nil }) {
		name := path[0]
		properties, _ := schema["properties"].(map[string]any)
		below, named := properties[name]
		_, err := strconv.ParseUint(name, 10, 31)
		if !named && err == nil {
			below, named = schema["items"]
		}
		if !named {
			return unnamed(schema, name, err == nil)
		}
		if schema, named = below.(map[string]any); !named {
			break
		}
		path = path[1:]
	}
	return "", false
}

// unnamed says why a schema that does not name a key or an item rules it out.
func unnamed(schema map[string]any, name string, index bool) (why string, sure bool) {
	properties, _ := schema["properties"].(map[string]any)
	switch kind, _ := schema["type"].(string); {
	case kind == "string" || kind == "number" || kind == "integer" || kind == "boolean" || kind == "null":
		return fmt.Sprintf("is of type %s where %q would have to be", kind, name), true
	case kind == "array" && !index:
		return fmt.Sprintf("is a list where %q would have to be; digits index lists", name), true
	case schema["additionalProperties"] == false:
		return fmt.Sprintf("has no %q and allows no other keys", name), true
	case len(properties) > 0:
		return fmt.Sprintf("does not name %q; a result that the server obtains itself never has it", name), false
	}
	return "", false
}

// nearTemplates warns, at most this often, of braces that look like a template but
// are kept as they are.
func (d declared) nearTemplates(s Step, most int) []Diagnostic {
	var found []Diagnostic
	_ = walkJSON(s.Challenge, jsonWalker{onString: func(pointer string, start, _ int, value string) {
		plain := -1 // not known yet
		d.eachNear(value, true, func(message string, in int) {
			if len(found) >= most {
				return
			}
			if plain < 0 {
				plain = unescaped(s.Challenge[start+1:], value)
			}
			at := start
			if in <= plain {
				at += 1 + in
			}
			warning := s.problemAt(at, pointer, message)
			warning.Severity = driver.SeverityWarning
			found = append(found, warning)
		})
	}})
	return found
}
