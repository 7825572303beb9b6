package access

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Policy is what the operator lets identified callers do besides what is theirs. Members are
// principals, "user:<realm>:<name>", and groups, "group:<realm>:<ref>".
type Policy struct {
	Spaces    []Members
	Operators []string
}

// Members are who may run and who may write in a space.
type Members struct {
	Space      string // its id
	Run, Write []string
}

// Admit returns the caller with its own space, those of its groups, and what the policy lets it
// do.
func (p Policy) Admit(c Caller) Caller {
	c.Space, c.Groups, c.Granted = c.Principal, c.MemberOf, nil
	c.Operator = c.isOneOf(p.Operators)
	for _, m := range p.Spaces {
		if may := (Verbs{c.isOneOf(m.Run), c.isOneOf(m.Write)}); may != (Verbs{}) {
			c.Granted = append(c.Granted, Grant{m.Space, may})
		}
	}
	return c
}

// isOneOf reports whether the list names the caller's principal or a group to which it belongs.
func (c Caller) isOneOf(list []string) bool {
	return c.Principal != "" && slices.Contains(list, c.Principal) ||
		slices.ContainsFunc(c.MemberOf, func(group string) bool { return slices.Contains(list, group) })
}

// Member is the id of a principal or group that a configuration or a protocol names, where one
// without a realm is of the realm given here.
func Member(realm, name string) (string, error) {
	id := principal.In(realm, name)
	if !principal.IsUser(id) && !principal.IsGroup(id) {
		return "", fmt.Errorf("%.80q names nobody: write group:NAME or user:NAME, or with its realm group:REALM:NAME", name)
	}
	return id, nil
}

// named is what the name of a space looks like: rules, flags and addresses quote it.
var named = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// SpaceID is the id of the space that an operator makes under the name.
func SpaceID(name string) (string, error) {
	const prefix = "space:"
	switch id := prefix + name; {
	case !named.MatchString(name):
		why := "it must be lower-case letters, digits and -, at most 63, and begin with a letter or digit"
		return "", fault.New(fault.InvalidArgument, "%q cannot be the name of a space: %s", plain.Clip(name, 80), why).WithHint("name it like production or team-red")
	case id == AppSpace, name == "personal", name == "local", strings.HasPrefix(name, "group-"):
		return "", fault.New(fault.InvalidArgument, "%q is the name of a space that KAIROS has itself", name).WithHint("choose another name")
	default:
		return id, nil
	}
}
