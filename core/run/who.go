package run

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Who is the voucher for an answer in the words of people: "the agent", "a model", "the
// server", or "a person" with the way in which they answered, if it is known. An unknown
// provenance is given as it is, and an empty one as "".
func Who(p driver.Provenance, way Basis) string {
	switch p {
	case driver.AgentReported:
		return "the agent"
	case driver.ModelGenerated:
		return "a model"
	case driver.ServerObserved:
		return "the server"
	case driver.LinkHolder:
		return person(BasisLink)
	case driver.ClientAttested:
		return person(way)
	}
	return string(p)
}

// ways of answering that are not worded as drivers name them.
var ways = map[Basis]string{BasisLink: "page link", BasisPage: "login"}

func person(way Basis) string {
	if way == "" {
		return "a person"
	}
	return fmt.Sprintf("a person (%s)", cmp.Or(ways[way], string(way)))
}

// Approver says who approved, in the words of people.
func (a Approval) Approver() string {
	if a.ClientReview {
		return "a person (" + driver.ByReview + ", left to the client)"
	}
	if n := len(a.Votes); n > 1 {
		return fmt.Sprintf("%d people (%s)", n, ways[BasisPage])
	}
	return Who(a.Provenance, a.Basis)
}

// Names are the principals who approved, or empty where nobody was identified.
func (a Approval) Names() string {
	return a.each(func(by, _ string) string { return by })
}

// People are the principals who approved, each with what people call them, where that is
// recorded; empty where nobody was identified.
func (a Approval) People() string { return a.each(Person) }

func (a Approval) each(named func(by, name string) string) string {
	if len(a.Votes) < 2 {
		return named(a.By, a.Name)
	}
	all := make([]string, len(a.Votes))
	for i, v := range a.Votes {
		all[i] = named(v.By, v.Name)
	}
	return strings.Join(all, ", ")
}

// Person names whose approval it is, as the function of that name does.
func (v Vote) Person() string { return Person(v.By, v.Name) }

// Person is a principal, with what people call it in quotes, if that is recorded: the name is
// another's word, and must not look like a principal.
func Person(by, name string) string {
	if name == "" {
		return by
	}
	return by + " " + strconv.Quote(name)
}

// nobody stands in a record where a person was named who was erased from it.
const nobody = "redacted"

// unnamed is nobody in place of a person who was named.
func unnamed(by string) string {
	if by == "" {
		return ""
	}
	return nobody
}

// unnamed is the approval without the people who gave it.
func (a *Approval) unnamed() *Approval {
	if a == nil {
		return nil
	}
	left := *a
	left.By, left.Name, left.Votes = unnamed(a.By), "", nil
	for _, v := range a.Votes {
		left.Votes = append(left.Votes, *v.unnamed())
	}
	return &left
}

// unnamed is the vote without the person whose it is. The groups that they answered for stay.
func (v *Vote) unnamed() *Vote {
	if v == nil {
		return nil
	}
	left := *v
	left.By, left.Name, left.As = unnamed(v.By), "", slices.Clone(v.As)
	for i, as := range left.As {
		if !strings.HasPrefix(as, "group:") {
			left.As[i] = nobody
		}
	}
	return &left
}
