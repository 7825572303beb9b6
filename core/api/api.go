// Package api declares the tools: what clients are told of each, and its request
// and reply as Go structs, from whose tags the schemas are inferred. It is pure: it
// has no rules, and it knows no face, no store and no engine.
//
// The json tag names a field, the doc tag describes it to agents, and others bound it;
// see shape.SchemaOf.
package api

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/shape"
)

// Declaration is what clients are told of a tool.
type Declaration struct {
	Name        string
	Title       string
	Description string
	// The hints of MCP's tool annotations.
	ReadOnly, Destructive, Idempotent, OpenWorld bool
	// Icon is the path of an SVG drawing on a square of 24.
	Icon string
	// Route is how REST serves the tool.
	Route Route
}

// Tool declares a tool with its request and its reply.
type Tool[Request, Reply any] struct{ Declaration }

// Input returns the schema of the request.
func (Tool[Request, Reply]) Input() *shape.Schema { return shape.SchemaOf(*new(Request)) }

// Output returns the schema of the reply: of a success or of a failure.
func (Tool[Request, Reply]) Output() *shape.Schema {
	var reply Reply
	failure := any(Failure{})
	if f, ok := any(reply).(Failing); ok {
		failure = f.Failure()
	}
	s, failed := shape.SchemaOf(reply), shape.SchemaOf(failure)
	for _, p := range failed.Properties {
		if s.Properties.Named(p.Name) == nil {
			s.Properties = append(s.Properties, p)
		}
	}
	s.AnyOf = []*shape.Schema{{Required: s.Required}, {Required: failed.Required}}
	s.Required = nil
	return s
}

// Failing is a reply whose failures have other fields than Failure.
type Failing interface{ Failure() any }

// Failure is the reply of a call that failed.
type Failure struct {
	MustObey   bool      `json:"must_obey,omitempty" doc:"true: follow next_action. false: use your judgement."`
	Message    string    `json:"message" doc:"What happened, in words"`
	NextAction string    `json:"next_action" doc:"The call that comes next"`
	NextCall   *NextCall `json:"next_call,omitempty"`
	ErrorCode  string    `json:"error_code" doc:"Set when something is wrong; the code to act on"`
	Tried      string    `json:"tried" doc:"What did not work, when error_code is set"`
}

// NextCall is next_action for programs: the call that comes next. Texts in
// angle brackets in Arguments are placeholders. Each has to be replaced, or left
// out where it says that it is optional; one that is sent as it is, is refused.
type NextCall struct {
	_ struct{} `doc:"next_action for programs: call this tool with these arguments. Replace each text in angle brackets, or leave it out where it says optional; sent as it is, it is refused"`

	Tool      string          `json:"tool" doc:"Tool to call"`
	Arguments json.RawMessage `json:"arguments" doc:"Its arguments" form:"opaque"`
}
