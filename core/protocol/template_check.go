package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/kairos-mcp/kairos/sdk/driver"
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
		eachTemplate(s.Challenge, func(r Reference, at int, before string) {
			if len(found) >= maxFindings {
				return
			}
			if why := r.impossible(i, known.position, known.inputs); why != "" {
				found = append(found, s.problemAt(at, r.Pointer, r.Text+": "+why))
			} else if why, sure := leadsNowhere(c.schemaOf(r, known.position), r.Path); why != "" {
				d := s.problemAt(at, r.Pointer, r.Text+": "+r.describer()+why)
				if !sure {
					d.Severity = driver.SeverityWarning
				}
				found = append(found, d)
			}
			if why := misplaced(s, r, before); why != "" {
				found = append(found, s.problemAt(at, r.Pointer, r.Text+": "+why))
			}
		})
		found = append(found, s.nearTemplates(maxFindings-len(found))...)
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
	at, ok := position[r.Step]
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

// schemaOf is the schema of the value that a reference starts at; nil: unknown.
func (c Chain) schemaOf(r Reference, position map[string]int) json.RawMessage {
	if r.Source == FromInput {
		return c.Inputs
	}
	common, err := CommonOf(c.Steps[position[r.Step]].Challenge)
	if err != nil {
		return nil // reported when the challenge is parsed
	}
	return common.OutputSchema
}

func (r Reference) describer() string {
	if r.Source == FromInput {
		return "the declared input "
	}
	return "the output_schema of the step "
}

// shape is the part of a schema that describes the structure of a value.
type shape struct {
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Additional any                        `json:"additionalProperties"`
	Items      json.RawMessage            `json:"items"`
}

// combining are the keywords of schemas that a shape cannot represent.
var combining = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "prefixItems",
}

// leadsNowhere follows a path through a schema and says why it ends; sure: no
// valid value has anything there. It reports nothing for parts that the schema
// leaves open.
func leadsNowhere(schema json.RawMessage, path []string) (why string, sure bool) {
	var keys map[string]json.RawMessage
	var s shape
	if len(path) == 0 || json.Unmarshal(schema, &keys) != nil || json.Unmarshal(schema, &s) != nil ||
		slices.ContainsFunc(combining, func(k string) bool { return keys[k] != nil }) {
		return "", false
	}
	name := path[0]
	if below, ok := s.Properties[name]; ok {
		return leadsNowhere(below, path[1:])
	}
	_, err := strconv.ParseUint(name, 10, 31)
	if index := err == nil; index && len(s.Items) > 0 {
		return leadsNowhere(s.Items, path[1:])
	}
	switch kind, _ := s.Type.(string); {
	case kind == "string" || kind == "number" || kind == "integer" || kind == "boolean" || kind == "null":
		return fmt.Sprintf("is of type %s where %q would have to be", kind, name), true
	case kind == "array" && err != nil:
		return fmt.Sprintf("is a list where %q would have to be; digits index lists", name), true
	case s.Additional == false:
		return fmt.Sprintf("has no %q and allows no other keys", name), true
	case len(s.Properties) > 0:
		return fmt.Sprintf("does not name %q; a result that the server obtains itself never has it", name), false
	}
	return "", false
}

// nearTemplates warns, at most this often, of braces that look like a template but
// are kept as they are.
func (s Step) nearTemplates(most int) []Diagnostic {
	var found []Diagnostic
	_ = walkJSON(s.Challenge, jsonWalker{onString: func(pointer string, start, _ int, value string) {
		eachNear(value, func(text string, in int) {
			if len(found) >= most {
				return
			}
			at := start
			if bytes.HasPrefix(s.Challenge[start+1:], []byte(value[:in])) {
				at += 1 + in
			}
			d := s.problemAt(at, pointer, text+notATemplate)
			d.Severity = driver.SeverityWarning
			found = append(found, d)
		})
	}})
	return found
}
