package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/infer"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// handler serves a tool whose arguments fit its input schema.
type handler func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error)

// handler makes the calls of a tool: it decodes, calls the engine and encodes.
func (s *Server) handler(t toolset.Tool) handler {
	if t.Open != nil {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.exchange(ctx, req, func(ctx context.Context, c access.Caller) (director.Round, error) {
				return t.Open(ctx, s.engine, c, req.Params.RawArguments)
			})
		}
	}
	indent := ""
	if t.Name == api.Attest.Name {
		indent = "  " // people read this one
	}
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		reply, err := t.Reply(ctx, s.engine, s.caller(ctx, req), req.Params.RawArguments)
		if err != nil {
			return s.failed(ctx, req, err)
		}
		return result(reply, indent)
	}
}

func (s *Server) addTools() error {
	for _, t := range toolset.Table {
		// Compiled at the first call: a start must be quick, hosts make many of them.
		s.checks[t.Name] = sync.OnceValues(func() (inputCheck, error) { return enforced(t) })
		if t.Name == api.Next.Name {
			continue // refresh declares it, with the types of challenges
		}
		tool, err := declared(t, nil)
		if err != nil {
			return err
		}
		s.addTool(tool, s.checks[t.Name], s.handler(t))
	}
	return s.next.refresh(s)
}

// declared is what agents see of a tool. The types of challenges are those of the
// configured drivers, which the table does not know; nil: they are not listed.
func declared(t toolset.Tool, types []string) (mcp.Tool, error) {
	input, err := t.Input()
	if err == nil && types != nil {
		err = listTypes(input, types)
	}
	if err != nil {
		return mcp.Tool{}, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
	}
	output, err := t.Output()
	if err != nil {
		return mcp.Tool{}, fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	in, err := api.Encode(input, "")
	if err != nil {
		return mcp.Tool{}, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
	}
	out, err := api.Encode(output, "")
	if err != nil {
		return mcp.Tool{}, fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	return mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		RawInputSchema: in, RawOutputSchema: out, Icons: []mcp.Icon{icon(t.Icon)},
		Annotations: mcp.ToolAnnotation{
			Title: t.Title, ReadOnlyHint: &t.ReadOnly, DestructiveHint: &t.Destructive,
			IdempotentHint: &t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
	}, nil
}

// listTypes sets the enum of solution.type.
func listTypes(input infer.Schema, types []string) error {
	solution, err := input.At("solution")
	if err != nil {
		return err
	}
	at, err := solution.At("type")
	if err != nil {
		return err
	}
	at.SetEnum(types)
	return nil
}

// addTool serves a tool, or replaces it.
func (s *Server) addTool(tool mcp.Tool, check func() (inputCheck, error), h handler) {
	s.mcp.AddTool(tool, s.observed(s.logged(func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if s.cfg.FirstCall != nil {
			s.first.Do(s.cfg.FirstCall)
		}
		c, err := check()
		if err != nil {
			return nil, fmt.Errorf("input schema of %s: %w", tool.Name, err)
		}
		if f := c.problem(req.Params.RawArguments); f != nil {
			noteCode(ctx, string(f.Code))
			return errorResult(req, f)
		}
		return h(traced(ctx, req), req)
	})))
}

// typedTool is kairos_next, whose schema lists the types of challenges that
// there are now.
type typedTool struct {
	mu    sync.Mutex // guards the fields below
	types []string
	told  []string // the types that clients know, or were told to ask for
}

// refresh declares the tool anew when there are other types than before. A
// list without any is not taken: no schema allows it.
func (n *typedTool) refresh(s *Server) error {
	types := s.cfg.ChallengeTypes()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(types) == 0 || slices.Equal(types, n.types) {
		return nil
	}
	i := slices.IndexFunc(toolset.Table, func(t toolset.Tool) bool { return t.Name == api.Next.Name })
	tool, err := declared(toolset.Table[i], types)
	if err != nil {
		return err
	}
	if n.told == nil {
		n.told = types
	}
	n.types = types
	s.addTool(tool, s.checks[tool.Name], s.handler(toolset.Table[i]))
	return nil
}

// tell reports whether clients have still to be told of the present types.
func (n *typedTool) tell() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(n.types, n.told) {
		return false
	}
	n.told = n.types
	return true
}

// Refresh tells clients that their list of tools is out of date, if it is. It
// is called after the types of challenges may have changed. Clients of the
// modern era are told by the time to live of their list.
func (s *Server) Refresh() error {
	if err := s.next.refresh(s); err != nil || !s.next.tell() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l, served := range s.links {
		if served.conn.legacyClient().Era == "" {
			continue // has not introduced itself, or not in this way
		}
		if err := l.notify(string(mcp.MethodNotificationToolsListChanged), map[string]any{}); err != nil {
			s.log.Debug("a client was not told of its new tools", "error", err)
		}
	}
	s.web.tell(notice(string(mcp.MethodNotificationToolsListChanged), map[string]any{}))
	return nil
}

// inputCheck judges arguments against a tool's input schema.
type inputCheck struct{ schema *jsonschema.Schema }

// enforced is the check of a tool's arguments.
func enforced(t toolset.Tool) (inputCheck, error) {
	input, err := t.Input()
	if err != nil {
		return inputCheck{}, err
	}
	schema, err := json.Marshal(input)
	if err != nil {
		return inputCheck{}, err
	}
	return newInputCheck(t.Name, schema)
}

// newInputCheck compiles the schema that is enforced. It is the one agents see,
// but for the solution of kairos_next: leaving it or a part of it out is an
// answer that the engine deals with, and so is a type whose driver was removed.
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
	return inputCheck{compiled}, err
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

// problem says what is wrong with the arguments, nil: nothing. A null is taken
// as left out, which is how some clients send what they do not use.
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

// maxLeaves bounds an error text; an agent repairs the first ones first.
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
