package run

import (
	"cmp"
	"fmt"
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
	if len(a.Votes) < 2 {
		return a.By
	}
	names := make([]string, len(a.Votes))
	for i, v := range a.Votes {
		names[i] = v.By
	}
	return strings.Join(names, ", ")
}
