package declines

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/run"
)

// Action is what would be done: the digest of each of its parts, by name. It holds no
// value itself. A part that it does not have may be anything.
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
	// Proposed is what the agent chose, unless a driver states that; empty: nothing.
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
			parts["action "+name] = value
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
		digest, err := run.Digest(slices.Concat([]byte("["), value, []byte("]")))
		if err != nil {
			return nil, fmt.Errorf("digest the action: %w", err)
		}
		action[name] = digest
	}
	return action, nil
}

// Same reports whether nothing tells the actions apart: no part differs that both have.
func (a Action) Same(b Action) bool {
	for name, digest := range a {
		if other, ok := b[name]; ok && other != digest {
			return false
		}
	}
	return true
}

// Includes reports whether b is one of the things that a allows to do: it has all parts
// of a, and perhaps more.
func (a Action) Includes(b Action) bool {
	for name := range a {
		if _, ok := b[name]; !ok {
			return false
		}
	}
	return a.Same(b)
}

// key is the same for the same parts.
func (a Action) key() (string, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("write the action: %w", err)
	}
	return run.Digest(b)
}
