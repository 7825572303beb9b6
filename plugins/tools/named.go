package main

import (
	"encoding/json"
)

// named leaves out of a result what the step's output_schema does not name. The
// result is data of a stranger: what nobody asked for reaches neither prompts nor
// later steps.
func named(value, evidence json.RawMessage) json.RawMessage {
	var s struct {
		AnyOf []struct {
			Agent      bool `json:"x-kairos-agent"`
			Properties struct {
				Result json.RawMessage `json:"result"`
			} `json:"properties"`
		} `json:"anyOf"`
	}
	if json.Unmarshal(evidence, &s) != nil {
		return value
	}
	for _, alternative := range s.AnyOf {
		if alternative.Agent {
			return pruned(value, alternative.Properties.Result)
		}
	}
	return value
}

// pruned drops the keys that a schema does not name, at every level that it
// describes by itself.
func pruned(value, by json.RawMessage) json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Items      json.RawMessage            `json:"items"`
	}
	if json.Unmarshal(by, &s) != nil {
		return value
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil && object != nil && s.Properties != nil {
		for key, inner := range object {
			of, ok := s.Properties[key]
			switch {
			case ok:
				object[key] = pruned(inner, of)
			case string(s.Additional) == "false":
				delete(object, key)
			}
		}
		return encoded(object, value)
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && s.Items != nil {
		for i := range list {
			list[i] = pruned(list[i], s.Items)
		}
		return encoded(list, value)
	}
	return value
}

func encoded(v any, otherwise json.RawMessage) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return b
}
