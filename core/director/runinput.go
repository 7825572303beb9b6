package director

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// inputForm has a placeholder for each of the keys: the same whatever other keys
// there are, so that it is known again when it comes back.
func inputForm(inputs json.RawMessage, keys []string) map[string]any {
	form := make(map[string]any, len(keys))
	for _, key := range keys {
		alone, _ := formOf(only(inputs, []string{key})).(map[string]any)
		if form[key] = alone[key]; form[key] == nil {
			form[key] = blank{name: key}.of(nil)
		}
	}
	return form
}

// checkInput refuses an input that the protocol's schema does not allow;
// missing keys are another matter, they can be asked for.
func checkInput(chain protocol.Chain, input json.RawMessage) error {
	if given := decision.Object(input); mayBeForm(input) {
		left := untouched(inputForm(chain.Inputs, slices.Collect(maps.Keys(given))), given, "/input")
		if len(left) > 0 {
			return placeholdersLeft(left)
		}
	}
	if len(chain.Inputs) == 0 {
		return nil
	}
	loose := without(chain.Inputs, "required")
	if problems := schema.Validate(loose, orObject(input)); len(problems) > 0 {
		return fault.New(fault.InvalidArgument, "input does not fit the protocol %q: %s", chain.Title, describe(problems)).
			With("inputs", chain.Inputs)
	}
	return nil
}

func placeholdersLeft(left []string) error {
	return fault.New(fault.InvalidArgument, "input: %s still hold the placeholders of next_call", plain.Clip(strings.Join(left, ", "), 500)).
		WithNext("replace each by its value, which you may have to ask the user for, and call kairos_begin again")
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// missingKeys lists the required keys that the input lacks, in the schema's order.
func missingKeys(inputs, input json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(inputs, &s) != nil {
		return nil
	}
	have := decision.Object(input)
	return slices.DeleteFunc(s.Required, func(k string) bool { _, ok := have[k]; return ok })
}

// only is the schema for just these keys.
func only(inputs json.RawMessage, keys []string) json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(inputs, &s) // was an object when the protocol was stored
	maps.DeleteFunc(s.Properties, func(k string, _ json.RawMessage) bool { return !slices.Contains(keys, k) })
	b, _ := json.Marshal(map[string]any{
		"type": "object", "properties": s.Properties, "required": keys, "additionalProperties": false,
	})
	return b
}

func without(inputs json.RawMessage, key string) json.RawMessage {
	var s map[string]json.RawMessage
	if json.Unmarshal(inputs, &s) != nil {
		return inputs
	}
	delete(s, key)
	b, _ := json.Marshal(s) // was decoded from JSON
	return b
}
