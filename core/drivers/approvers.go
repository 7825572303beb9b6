package drivers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
)

// Lacking is a demand that not enough people have met, and how many have.
type Lacking struct {
	rules.People
	Have int
}

// Lacks are the demands that these people have not met by their approvals; none: the approval is
// complete. It is also complete where it has not to come after login.
func (a Approval) Lacks(votes []run.Vote) (open []Lacking) {
	for _, p := range a.People {
		have := 0
		for _, v := range votes {
			if a.counts(v) && in(p, v) {
				have++
			}
		}
		if have < p.Count {
			open = append(open, Lacking{p, have})
		}
	}
	return open
}

// Missing says who has to approve yet, beside these people; empty: nobody.
func (a Approval) Missing(votes []run.Vote) string {
	var all []string
	for _, l := range a.Lacks(votes) {
		said := fmt.Sprintf("%d of %d", l.Have, l.Count)
		if l.Of != nil {
			said += " of " + strings.Join(l.Of, ", ")
		}
		all = append(all, said)
	}
	if len(all) == 0 {
		return ""
	}
	said := "Approved by " + strings.Join(all, ", and by ")
	if a.NotRunner {
		said += ", other than whoever runs this"
	}
	return said
}

// Barred says why the person may not approve; empty: they may.
func (a Approval) Barred(v run.Vote) string {
	switch {
	case !a.counts(v):
		return "You run this yourself, or one of your tokens does. Somebody else has to approve it."
	case !slices.ContainsFunc(a.People, func(p rules.People) bool { return in(p, v) }):
		var who []string
		for _, p := range a.People {
			who = append(who, strings.Join(p.Of, ", "))
		}
		return fmt.Sprintf("Only %s may approve this, and you do not belong to them.", strings.Join(who, ", "))
	}
	return ""
}

// Helps says why the person's approval is not needed, beside those; empty: it is.
func (a Approval) Helps(v run.Vote, votes []run.Vote) string {
	for _, l := range a.Lacks(votes) {
		if in(l.People, v) && !slices.ContainsFunc(votes, func(old run.Vote) bool { return old.By == v.By && in(l.People, old) }) {
			return ""
		}
	}
	if slices.ContainsFunc(votes, func(old run.Vote) bool { return old.By == v.By }) {
		return "You have approved this already. Somebody else has to approve it as well."
	}
	return "Enough people like you have approved this already. Others have to approve it as well."
}

// As are the people and groups of the demands that the principal is, or belongs to.
func (a Approval) As(principal string, groups []string) (as []string) {
	for _, p := range a.People {
		for _, one := range p.Of {
			if (one == principal || slices.Contains(groups, one)) && !slices.Contains(as, one) {
				as = append(as, one)
			}
		}
	}
	return as
}

// Holds are the approvals of these that count for what is asked at that time.
func (a Approval) Holds(votes []run.Vote, digest string, now time.Time) []run.Vote {
	return slices.DeleteFunc(slices.Clone(votes), func(v run.Vote) bool {
		return v.Digest != digest || now.After(v.ExpiresAt) || !v.Has(a.Phrase) || !a.counts(v)
	})
}

func (a Approval) counts(v run.Vote) bool { return !a.NotRunner || !v.Runner }

// in reports whether the person is one of those.
func in(p rules.People, v run.Vote) bool {
	return p.Of == nil || slices.ContainsFunc(v.As, func(one string) bool { return slices.Contains(p.Of, one) })
}
