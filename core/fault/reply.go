package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Fields are the members of an error reply. In JSON what an agent acts on comes first, because
// clients cut long replies.
type Fields map[string]any

// first are the members that come first, in order.
var first = []string{"must_obey", "error", "error_code", "message", "next_action", "next_call"}

// MarshalJSON implements json.Marshaler.
func (f Fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	keys := slices.DeleteFunc(slices.Clone(first), func(key string) bool { _, ok := f[key]; return !ok })
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for i, key := range keys {
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f[key])
		if err != nil {
			return nil, err
		}
		b.WriteByte("{,"[min(i, 1)])
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(keys) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Next says to agents which call helps, or what else they can do.
func (e *Error) Next() string { return cmp.Or(e.NextAction, RowOf(e.Code).Advice) }

// ForPeople says to a person at a terminal what helps.
func (e *Error) ForPeople() string { return cmp.Or(e.Hint, RowOf(e.Code).Hint) }

// Reply is the error as every face answers it: a JSON object with the code, what
// was tried, what went wrong and what to do next.
func (e *Error) Reply(tried string) Fields {
	fields := Fields{"must_obey": false}
	maps.Copy(fields, e.Details)
	fields["error_code"] = e.Code
	fields["message"] = e.Message
	fields["next_action"] = e.Next()
	if tried != "" {
		fields["tried"] = tried
	}
	if e.NextCall != nil {
		fields["next_call"] = e.NextCall
	}
	return fields
}

// known are the fields of replies that are not details of the error.
var known = []string{"error", "error_code", "message", "next_action", "next_call", "must_obey", "tried", "duration_ms", "metadata"}

// FromReply is the error that a reply reports; nil if it reports none.
func FromReply(reply []byte) *Error {
	var fields map[string]any
	if json.Unmarshal(reply, &fields) != nil {
		return nil //nolint:nilerr // not an object: it reports no error
	}
	text := func(key string) string { s, _ := fields[key].(string); return s }
	code := cmp.Or(text("error_code"), text("error"))
	if code == "" {
		return nil
	}
	e := &Error{Code: Code(code), Message: text("message"), NextAction: text("next_action")}
	if b, err := json.Marshal(fields["next_call"]); err == nil {
		_ = json.Unmarshal(b, &e.NextCall) // of another shape: there is none
	}
	for _, key := range known {
		delete(fields, key)
	}
	e.Details = fields
	return e
}
