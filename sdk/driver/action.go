package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// Unparsed stands in an action for what the driver cannot read or know: in place of a
// member, of an element of a list, or of a word in such an element. A rule of the operator
// matches it, whatever it asks for. A member that is null is not known either.
type Unparsed struct {
	// Text is what was written, so that two of them can be told apart.
	Text string `json:"unparsed"`
}

// MemberKind is what the value of a member of actions is.
type MemberKind string

// The kinds of members. A rule can match only texts and lists.
const (
	MemberText  MemberKind = "text"
	MemberList  MemberKind = "list"
	MemberOther MemberKind = "other"
)

// maxActionSchema bounds Descriptor.ActionSchema, in bytes.
const maxActionSchema = 64 << 10

// memberName is what members of actions are called: operators write them as keys of rules.
var memberName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// ActionMembers reads the members that a Descriptor.ActionSchema declares. A schema without
// properties is an error, because no rule could match the action.
func ActionMembers(schema json.RawMessage) (map[string]MemberKind, error) {
	if len(schema) > maxActionSchema {
		return nil, fmt.Errorf("has %d bytes, at most %d are read", len(schema), maxActionSchema)
	}
	var object struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return nil, fmt.Errorf("is not the JSON Schema of an object: %w", err)
	}
	if len(object.Properties) == 0 {
		return nil, errors.New("declares no properties: name each member of the actions")
	}
	members := make(map[string]MemberKind, len(object.Properties))
	for name, property := range object.Properties {
		if !memberName.MatchString(name) {
			return nil, fmt.Errorf("declares the member %.80q: a name must match %s", name, memberName)
		}
		members[name] = kindOf(property.Type)
	}
	return members, nil
}

// kindOf is the kind of a member of a type in JSON Schema, which may be a list of types.
func kindOf(declared any) MemberKind {
	if list, ok := declared.([]any); ok {
		kind := MemberOther
		for _, one := range list {
			if k := kindOf(one); k != MemberOther {
				kind = k
			}
		}
		return kind
	}
	switch declared {
	case "string":
		return MemberText
	case "array":
		return MemberList
	}
	return MemberOther
}
