package fields

import (
	"bytes"
	"encoding/json"
)

// Member is a member of a JSON object.
type Member struct {
	Key   string
	Value json.RawMessage // as it stands in the object
	raw   json.RawMessage // the key, as it stands in the object
}

// Members returns the members of a JSON object in their order, or false for anything
// else. It reads the text once, and decodes nothing but keys. The text must be JSON.
func Members(object json.RawMessage) ([]Member, bool) {
	parts, ok := parts(object, '{', '}')
	if !ok || len(parts)%2 != 0 {
		return nil, false
	}
	members := make([]Member, 0, len(parts)/2)
	for ; len(parts) > 0; parts = parts[2:] {
		m := Member{Value: parts[1], raw: parts[0]}
		if json.Unmarshal(m.raw, &m.Key) != nil {
			return nil, false
		}
		members = append(members, m)
	}
	return members, true
}

// ObjectOf is an object with the members of another one, as Members returns them.
func ObjectOf(members []Member) json.RawMessage {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.raw...), ':'), m.Value...)
	}
	return append(out, '}')
}

// elements are those of a JSON list.
func elements(list json.RawMessage) ([]json.RawMessage, bool) { return parts(list, '[', ']') }

// parts are the values between two brackets, the keys of an object included.
func parts(text json.RawMessage, open, end byte) ([]json.RawMessage, bool) {
	text = bytes.Trim(text, space)
	if len(text) < 2 || text[0] != open || text[len(text)-1] != end {
		return nil, false
	}
	var found []json.RawMessage
	for rest := bytes.Trim(text[1:len(text)-1], space); len(rest) > 0; {
		n := valueLength(rest)
		if n == 0 {
			return nil, false // not JSON
		}
		found = append(found, rest[:n:n])
		rest = bytes.TrimLeft(rest[n:], space+",:")
	}
	return found, true
}

// space is the whitespace of JSON.
const space = " \t\r\n"

// valueLength is how many bytes the value at the beginning of the text has.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringLength(text[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1 + min(depth, 0)
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// stringLength is how many bytes the string at the beginning of the text has.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
