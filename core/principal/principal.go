// Package principal is the form of the ids of people and groups: user:<realm>:<name> and
// group:<realm>:<name>. It does not know who there is, nor what anybody may do.
package principal

import (
	"regexp"
	"strings"
)

const (
	userPrefix  = "user:"
	groupPrefix = "group:"
	most        = 320 // bytes
)

// ids are how principals and groups are written.
var ids = regexp.MustCompile(`^(user|group):[A-Za-z0-9._-]+:[^\s:[:cntrl:]]+$`)

// User is the id of a person in a realm.
func User(realm, name string) string { return userPrefix + realm + ":" + name }

// Group is the id of a group in a realm.
func Group(realm, name string) string { return groupPrefix + realm + ":" + name }

// IsUser reports whether the text is the id of a person.
func IsUser(id string) bool { return strings.HasPrefix(id, userPrefix) && isID(id) }

// IsGroup reports whether the text is the id of a group.
func IsGroup(id string) bool { return strings.HasPrefix(id, groupPrefix) && isID(id) }

func isID(text string) bool { return len(text) <= most && ids.MatchString(text) }

// In is the id of a person or group that may be written without a realm: it then is of the realm
// given here. Other text stays as it is.
func In(realm, name string) string {
	for _, kind := range []string{userPrefix, groupPrefix} {
		if rest, ok := strings.CutPrefix(name, kind); ok && !strings.Contains(rest, ":") {
			return kind + realm + ":" + rest
		}
	}
	return name
}
