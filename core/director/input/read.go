package input

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Opened is an object that some clients send as JSON text. Anything else stays as it is.
func Opened(sent json.RawMessage) (json.RawMessage, error) {
	return lossless(map[string]any{"type": "object"}, sent)
}

// Envelope reads what an agent submits as kairos_next describes it.
func Envelope(opened json.RawMessage) (json.RawMessage, error) {
	return lossless(submission(), opened)
}

// submission is the schema of the solution of kairos_next.
var submission = sync.OnceValue(func() any {
	return api.Value(api.Next.Input().Properties.Named("solution").JSON())
})

// Read reads what a submission of the type says of an input, in the form that the input's
// schema demands.
func Read(in driver.Input, typeName string, opened json.RawMessage) (json.RawMessage, error) {
	schema := ofAgents(api.Value(in.Schema))
	return lossless(map[string]any{
		"type": "object", "properties": map[string]any{typeName: schema, evidenceField: schema}, "required": []any{typeName, evidenceField},
	}, opened)
}

// evidenceField has the evidence of the types that have no field of their own.
const evidenceField = "evidence"

func lossless(schema any, sent json.RawMessage) (json.RawMessage, error) {
	if len(sent) == 0 {
		return sent, nil
	}
	read, err := fields.Lossless(schema, sent)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidArgument, "solution: %v", err)
	}
	return read, nil
}

// ofAgents is the schema with each alternative that is marked for agents in the place of
// all alternatives.
func ofAgents(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	s = maps.Clone(api.AgentShape(s))
	if properties, ok := s["properties"].(map[string]any); ok {
		read := make(map[string]any, len(properties))
		for name, property := range properties {
			read[name] = ofAgents(property)
		}
		s["properties"] = read
	}
	if items, ok := s["items"].(map[string]any); ok {
		s["items"] = ofAgents(items)
	}
	return s
}
