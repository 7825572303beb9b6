package decision

import "encoding/json"

// Object decodes a JSON object for conditions; nil if it is not an object.
func Object(raw json.RawMessage) map[string]any {
	var m map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// Member returns the object under the key; nil if there is none.
func Member(raw json.RawMessage, key string) map[string]any {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return Object(m[key])
}
