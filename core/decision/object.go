package decision

import "encoding/json"

// Object reads a JSON object for conditions; nil: it is none.
func Object(raw json.RawMessage) map[string]any {
	var m map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// Member reads the object that stands in an object under the key; nil: there is none.
func Member(raw json.RawMessage, key string) map[string]any {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return Object(m[key])
}
