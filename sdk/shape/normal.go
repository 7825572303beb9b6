package shape

import (
	"bytes"
	"encoding/json"
)

// Normal is a document that was read without an error, as JSON with the
// defaults in it and without keys that the struct does not have.
func (s *Shape[T]) Normal(raw json.RawMessage) json.RawMessage {
	return s.root.normal(raw, func(field) bool { return true })
}

// Public is Normal without the members that are secret.
func (s *Shape[T]) Public(raw json.RawMessage) json.RawMessage {
	return s.root.normal(raw, func(f field) bool { return !f.secret })
}

func (n *node) normal(raw json.RawMessage, shown func(field) bool) json.RawMessage {
	switch n.form {
	case list:
		return n.normalList(raw, shown)
	case dictionary, object:
		return n.normalObject(raw, shown)
	}
	return raw
}

func (n *node) normalList(raw json.RawMessage, shown func(field) bool) json.RawMessage {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return raw
	}
	for i, entry := range entries {
		entries[i] = n.elem.normal(entry, shown)
	}
	return encoded(entries)
}

func (n *node) normalObject(raw json.RawMessage, shown func(field) bool) json.RawMessage {
	var entries map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return raw
	}
	if n.form == dictionary {
		for key, entry := range entries {
			entries[key] = n.elem.normal(entry, shown)
		}
		return encoded(entries)
	}
	out := map[string]json.RawMessage{}
	for _, f := range n.members {
		value := entries[f.name]
		if value == nil || string(value) == "null" && f.node.form != anything {
			value = f.fallback
		}
		if value == nil && f.node.form == object && !f.optional && !f.required {
			value = json.RawMessage("{}")
		}
		if value != nil && shown(f) {
			out[f.name] = f.node.normal(value, shown)
		}
	}
	return encoded(out)
}

// encoded marshals parts that are JSON already; < and > stay as they are.
func encoded(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null") // cannot be: the parts were valid JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// Lines tell each member in words, for whoever has to fill it in.
func (s *Shape[T]) Lines() []string {
	lines := make([]string, 0, len(s.root.members))
	for _, f := range s.root.members {
		line := f.name + " (" + f.node.inWords()
		if !f.required {
			line += ", optional"
		}
		line += ")"
		if f.doc != "" {
			line += ": " + f.doc
		}
		lines = append(lines, line)
	}
	return lines
}
