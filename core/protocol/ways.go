package protocol

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Way is a way of approving that is a part of another one, with a condition that KAIROS itself
// checks of the answer. The others are those in which drivers answer (driver.Descriptor.AnswersBy).
type Way struct {
	Name string
	// Of is the way that contains it: whoever takes that takes this as well.
	Of string
	// Login: the answer counts of people who have logged in alone, and the approval names them.
	Login bool
	// Barred tells a person on the page why their answer would not count.
	Barred string
}

// HowLogin is the way in which a person answers on the approval page after login.
const HowLogin = "login"

// ways is the table of them, each behind the way that contains it. Another condition of an answer,
// such as a signature over what is approved, is one more row, and a field that says what it demands.
var ways = []Way{
	{Name: HowLogin, Of: driver.ByPage, Login: true, Barred: "Only people who have logged in may answer this. Log in, and open the link again."},
}

// WayOf returns the row of the table; false: it has none of that name.
func WayOf(name string) (Way, bool) {
	i := slices.IndexFunc(ways, func(w Way) bool { return w.Name == name })
	if i < 0 {
		return Way{}, false
	}
	return ways[i], true
}

// AnsweredBy is the way in which a driver answers so.
func AnsweredBy(name string) string {
	for {
		w, ok := WayOf(name)
		if !ok {
			return name
		}
		name = w.Of
	}
}

// WithParts are the ways with those that they contain; nil stays nil.
func WithParts(how []string) []string {
	all := slices.Clone(how)
	for _, w := range ways {
		if slices.Contains(all, w.Of) && !slices.Contains(all, w.Name) {
			all = append(all, w.Name)
		}
	}
	return all
}

// WithoutParts are the ways without those that another of them contains, as people write them.
func WithoutParts(how []string) []string {
	return slices.DeleteFunc(slices.Clone(how), func(name string) bool {
		w, ok := WayOf(name)
		return ok && slices.Contains(how, w.Of)
	})
}

// NeedsLogin says of a key or a word that it cannot be met.
func NeedsLogin(word string) string {
	return word + " needs people who log in, and nobody can log in to this server: set auth.enabled in kairos.yaml"
}

// Unmet says which of the ways nobody can take on a server to which nobody can log in; empty: all
// can be taken.
func Unmet(how []string) string {
	for _, name := range how {
		if w, ok := WayOf(name); ok && w.Login {
			return NeedsLogin(name)
		}
	}
	return ""
}

// UnnamedWays says why people who are named cannot answer in these ways, or "" if they can.
func UnnamedWays(how []string) string {
	names := func(name string) bool { w, ok := WayOf(name); return ok && w.Login }
	if how == nil || slices.ContainsFunc(WithParts(how), names) {
		return ""
	}
	return fmt.Sprintf("is %s, but by, not and quorum count people, who are known by their login: add %s, or leave how out", strings.Join(how, " or "), strings.Join(NamingWays(), " or "))
}

// NamingWays are those of the ways whose approvals name people.
func NamingWays() (names []string) {
	for _, w := range ways {
		if w.Login {
			names = append(names, w.Name)
		}
	}
	return names
}
