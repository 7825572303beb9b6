package declines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Action is what would be done: the digests of each of its parts, by name. It holds no
// value itself. A part that it does not have may be anything. A part that is a list is
// the set of its elements.
type Action map[string]string

// Asked is what a challenge of a type would have done.
type Asked struct {
	Type string
	// Stated is the action as its drivers state it, the later ones in place of the
	// earlier: JSON objects.
	Stated []json.RawMessage
	// Shown is what the challenge shows, with all values filled in. It is the action
	// where nothing is stated.
	Shown json.RawMessage
	// Proposed is what the agent chose, unless a driver states that, or empty.
	Proposed json.RawMessage
}

// Action of what is asked. Titles, texts and labels are not part of it.
func (a Asked) Action() (Action, error) {
	parts := map[string]json.RawMessage{}
	for _, stated := range a.Stated {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(stated, &members); err != nil {
			return nil, fmt.Errorf("read the action: %w", err)
		}
		for name, value := range members {
			if string(value) != "null" { // as if it were left out
				parts["action "+plain.Normal(name)] = value
			}
		}
	}
	if len(parts) == 0 {
		parts["shown"] = a.Shown
	}
	if len(a.Proposed) > 0 {
		parts["proposed"] = a.Proposed
	}
	action := Action{"type": a.Type}
	for name, value := range parts {
		digests, err := digestsOf(value)
		if err != nil {
			return nil, fmt.Errorf("digest the action: %w", err)
		}
		action[name] = digests
	}
	return action, nil
}

// Any is an action of a type of which nothing else is known.
func Any(typ string) Action { return Action{"type": typ} }

// maxElements is how many elements a list may have to be compared as a set.
const maxElements = 256

// digestsOf are the digests of the elements of a list, sorted, or that of another value.
func digestsOf(value json.RawMessage) (string, error) {
	value, err := normal(value)
	if err != nil {
		return "", err
	}
	elements := []json.RawMessage{value}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && len(list) > 0 && len(list) <= maxElements {
		elements = list
	}
	digests := make([]string, len(elements))
	for i, e := range elements {
		if digests[i], err = run.Digest(slices.Concat([]byte("["), e, []byte("]"))); err != nil {
			return "", err
		}
	}
	slices.Sort(digests)
	return strings.Join(slices.Compact(digests), " "), nil
}

// normal is a value without what does not tell it from another one: how its numbers and
// keys are written, members that are null, and in its texts what plain.Normal takes off.
func normal(value json.RawMessage) (json.RawMessage, error) {
	written, err := run.Canonical(slices.Concat([]byte("["), value, []byte("]"))) // refuses what has no digest
	if err != nil {
		return nil, err
	}
	var v []any
	dec := json.NewDecoder(bytes.NewReader(written))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(normalValue(v[0]))
}

func normalValue(v any) any {
	switch v := v.(type) {
	case string:
		return plain.Normal(v)
	case []any:
		for i := range v {
			v[i] = normalValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // the same one of two that have become one
			if v[name] != nil {
				out[plain.Normal(name)] = normalValue(v[name])
			}
		}
		return out
	}
	return v
}

// Same reports whether nothing tells the actions apart: of each part that both have,
// one has all that the other has.
func (a Action) Same(b Action) bool {
	for name, digests := range a {
		if other, ok := b[name]; ok && !within(digests, other) && !within(other, digests) {
			return false
		}
	}
	return true
}

// Includes reports whether b is one of the things that a allows to do: a has all that b
// has of each of its parts, and b may have more parts.
func (a Action) Includes(b Action) bool {
	for name, digests := range a {
		if other, ok := b[name]; !ok || !within(other, digests) {
			return false
		}
	}
	return true
}

// within reports whether all of the digests are among others.
func within(digests, others string) bool {
	among := strings.Fields(others)
	return digests == others || !slices.ContainsFunc(strings.Fields(digests), func(d string) bool {
		_, found := slices.BinarySearch(among, d)
		return !found
	})
}

// Key is the same for the same parts.
func (a Action) Key() (string, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("write the action: %w", err)
	}
	return run.Digest(b)
}
