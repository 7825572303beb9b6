package fields

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// AnyError reports whether one of the diagnostics is an error.
func AnyError(diagnostics []driver.Diagnostic) bool {
	for _, d := range diagnostics {
		if d.Severity == driver.SeverityError {
			return true
		}
	}
	return false
}

// Text joins diagnostics to one line for a message.
func Text(diagnostics []driver.Diagnostic) string {
	parts := make([]string, 0, len(diagnostics))
	for _, d := range diagnostics {
		if d.Pointer == "" {
			parts = append(parts, d.Message)
			continue
		}
		parts = append(parts, d.Pointer+": "+d.Message)
	}
	return strings.Join(parts, "; ")
}

// With returns the object with the member set to the value. No object (nil or
// null) counts as an empty one.
func With(object json.RawMessage, key string, value any) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := json.Unmarshal(object, &members); err != nil {
			return nil, fmt.Errorf("set %q: %w", key, err)
		}
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("set %q: %w", key, err)
	}
	members[key] = raw
	return json.Marshal(members)
}

// Without returns the object without the members.
func Without(object json.RawMessage, keys ...string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("remove %q: %w", keys, err)
	}
	for _, key := range keys {
		delete(members, key)
	}
	return json.Marshal(members)
}

// WithParam returns the challenge with its type said and one parameter of the
// object named like the type set, as drivers normalise their defaults.
func WithParam(challenge json.RawMessage, typeName, key string, value any) (json.RawMessage, error) {
	params, err := With(Open(challenge, "").Raw(typeName), key, value)
	if err != nil {
		return nil, err
	}
	out, err := With(challenge, typeName, params)
	if err != nil {
		return nil, err
	}
	return With(out, "type", typeName)
}
