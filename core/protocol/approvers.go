package protocol

import (
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// NotRunner is the one word of approval.not: the owner of the run, and of the token that began it.
const NotRunner = "runner"

// Bounds of who approves.
const (
	maxBy     = 32 // people and groups
	maxQuorum = 10
)

// BadBy says why the list cannot name people and groups, or "" if it can.
func BadBy(by []string) string {
	switch {
	case len(by) == 0:
		return "is an empty list, so nobody could approve: leave it out, or name a group such as group:release"
	case len(by) > maxBy:
		return fmt.Sprintf("names %d people and groups, at most %d are taken", len(by), maxBy)
	}
	for i, one := range by {
		switch {
		case templatePattern.MatchString(one):
			return "must not have templates: a value could choose who approves"
		case !principal.IsUser(one) && !principal.IsGroup(principal.In("any", one)):
			return fmt.Sprintf("has %.80q, which is neither a person, such as user:acme:ada, nor a group, such as group:release or group:acme:release", one)
		case slices.Contains(by[:i], one):
			return fmt.Sprintf("has %q twice", one)
		}
	}
	return ""
}

// BadQuorum says why so many people cannot be demanded, or "" if they can.
func BadQuorum(n int) string {
	if n < 1 || n > maxQuorum {
		return fmt.Sprintf("must be a whole number from 1 to %d", maxQuorum)
	}
	return ""
}

// InRealm are the ids of the people and groups: a group that is written without a realm is one of
// this realm.
func InRealm(by []string, realm string) []string {
	all := slices.Clone(by)
	for i, one := range all {
		if realm != "" {
			all[i] = principal.In(realm, one)
		}
	}
	return all
}

// NamesPeople reports whether the approval demands what only people can meet who have logged in.
func (a *Approval) NamesPeople() bool {
	return a != nil && (len(a.By) > 0 || a.Not != "" || a.Quorum > 1)
}

// peopleProblems checks who approves, as written.
func (a *Approval) peopleProblems(o *fields.Object) {
	if o.Raw("by") != nil {
		if why := BadBy(a.By); why != "" {
			o.Wrong("by", "approval.by "+why)
		}
	}
	if o.Raw("not") != nil && a.Not != NotRunner {
		o.Wrong("not", fmt.Sprintf("approval.not must be %q, whoever runs the protocol, not %.80q", NotRunner, a.Not))
	}
	if o.Raw("quorum") != nil {
		if why := BadQuorum(a.Quorum); why != "" {
			o.Wrong("quorum", "approval.quorum "+why)
		}
	}
	if a.NamesPeople() && len(a.How) > 0 {
		if why := UnnamedWays(a.How); why != "" {
			o.Wrong("how", "approval.how "+why)
		}
	}
}
