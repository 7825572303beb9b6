package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// inputCheck reads arguments and validates them against a tool's input schema.
type inputCheck struct {
	doc    any // the schema, decoded
	schema *jsonschema.Schema
}

// enforced returns the check of a tool's arguments.
func enforced(t toolset.Tool) (inputCheck, error) {
	return newInputCheck(t.Name, t.Input().JSON())
}

// newInputCheck compiles the enforced schema. It is the schema that agents see, except
// for the solution of kairos_next: the director handles a missing or incomplete
// solution, and a type whose driver was removed.
func newInputCheck(tool string, schema []byte) (inputCheck, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return inputCheck{}, err
	}
	if tool == api.Next.Name {
		relaxSolution(doc)
	}
	c := jsonschema.NewCompiler()
	url := "kairos:///" + tool
	if err := c.AddResource(url, doc); err != nil {
		return inputCheck{}, err
	}
	compiled, err := c.Compile(url)
	return inputCheck{doc, compiled}, err
}

func relaxSolution(doc any) {
	root, _ := doc.(map[string]any)
	root["required"] = []any{"uri"}
	properties, _ := root["properties"].(map[string]any)
	dropRequired(properties["solution"])
}

func dropRequired(schema any) {
	m, ok := schema.(map[string]any)
	if !ok {
		return
	}
	delete(m, "required")
	properties, _ := m["properties"].(map[string]any)
	for _, p := range properties {
		dropRequired(p)
	}
}

// read returns arguments in the form that the schema demands, as a handler takes them, or
// the error of invalid ones. A solution stays as it was sent: it is recorded so, and the
// director reads it.
func (c inputCheck) read(arguments json.RawMessage) (json.RawMessage, *fault.Error) {
	read, err := fields.Lossless(c.doc, arguments)
	if err != nil {
		return nil, invalidInput(err.Error())
	}
	if f := c.problem(read); f != nil {
		return nil, f
	}
	return withSolution(read, arguments), nil
}

// withSolution returns arguments that were read with the solution as it was sent.
func withSolution(read, sent json.RawMessage) json.RawMessage {
	if bytes.Equal(read, sent) {
		return read
	}
	members, _ := fields.Members(read)
	asSent, _ := fields.Members(sent)
	isSolution := func(m fields.Member) bool { return m.Key == "solution" }
	i, j := slices.IndexFunc(members, isSolution), slices.IndexFunc(asSent, isSolution)
	if i < 0 || j < 0 {
		return read
	}
	members[i].Value = asSent[j].Value
	return fields.ObjectOf(members)
}

// problem returns the error of invalid arguments, or nil. A null counts as left out,
// because some clients send null for unused arguments.
func (c inputCheck) problem(arguments json.RawMessage) *fault.Error {
	if len(object(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return invalidInput("arguments: not JSON")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return invalidInput("arguments: must be an object")
	}
	for k, field := range m {
		if field == nil {
			delete(m, k)
		}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(c.schema.Validate(m), &invalid) {
		return nil
	}
	f := invalidInput(strings.Join(leaves(invalid, nil), "; "))
	if len(invalid.Causes) > 0 && atURI(invalid) {
		f = f.WithNext("call kairos_search with what you are looking for, and use the uri of a choice")
	}
	return f
}

func invalidInput(text string) *fault.Error {
	return fault.New(fault.InvalidArgument, "Input validation error: %s", text).
		WithNext("correct what the message names and call the tool again")
}

// maxLeaves limits the findings in an error text; an agent fixes the first ones first.
const maxLeaves = 8

// leaves lists the findings with the path of the field each is about.
func leaves(e *jsonschema.ValidationError, found []string) []string {
	causes := slices.Clone(e.Causes) // their order is that of a map
	slices.SortStableFunc(causes, func(a, b *jsonschema.ValidationError) int {
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	})
	for _, cause := range causes {
		found = leaves(cause, found)
	}
	if len(e.Causes) > 0 || len(found) >= maxLeaves {
		return found
	}
	path := strings.Join(e.InstanceLocation, ".")
	if missing, ok := e.ErrorKind.(*kind.Required); ok {
		for _, name := range missing.Missing {
			found = append(found, strings.TrimPrefix(path+"."+name, ".")+": is required")
		}
		return found
	}
	text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	return append(found, strings.TrimPrefix(path+": "+text, ": "))
}

func atURI(e *jsonschema.ValidationError) bool {
	for _, cause := range e.Causes {
		if at := cause.InstanceLocation; len(at) > 0 && (at[0] == "uri" || at[0] == "uris") {
			return true
		}
		if missing, ok := cause.ErrorKind.(*kind.Required); ok && len(missing.Missing) > 0 && missing.Missing[0] == "uri" {
			return true
		}
	}
	return false
}

// object is a JSON value that may be left out, by absence or by null.
func object(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}
