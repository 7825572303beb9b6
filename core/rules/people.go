package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/yamldoc"
)

// peopleKeys say who approves.
var peopleKeys = []string{"by", "not", "quorum"}

// People is how many different people of a list have to approve.
type People struct {
	// Of are the ids of people and groups; nil means whoever has logged in.
	Of    []string `json:"of,omitempty"`
	Count int      `json:"count"`
}

// Words say who has to approve: "2 people of group:acme:release".
func (p People) Words() string {
	who := "1 person"
	if p.Count > 1 {
		who = fmt.Sprintf("%d people", p.Count)
	}
	if p.Of == nil {
		return who
	}
	return who + " of " + strings.Join(p.Of, ", ")
}

// named makes the approval one by people who are named, in no way that does not name them.
func (a *Approval) named(p People, notRunner bool) {
	a.People, a.NotRunner = []People{p}, notRunner
	a.How = intersection(a.How, protocol.NamingWays())
}

// everybody is what both lists demand. A list that is in both demands the greater number.
func everybody(a, b []People) []People {
	all := slices.Clone(a)
	for _, p := range b {
		if i := slices.IndexFunc(all, func(q People) bool { return slices.Equal(p.Of, q.Of) }); i >= 0 {
			all[i].Count = max(all[i].Count, p.Count)
			continue
		}
		all = append(all, p)
	}
	return all
}

// readPeople reads who approves.
func (c *compiler) readPeople(a *Approval, parts []yamldoc.Entry, named string) {
	if len(parts) == 0 {
		return
	}
	p, not, before := People{Count: 1}, false, c.doc.Problems()
	for _, part := range parts {
		switch part.Name {
		case "by":
			p.Of = c.readBy(part, named)
		case "not":
			word, _ := yamldoc.TextOf(part.Value)
			if not = word == protocol.NotRunner; !not {
				c.doc.Problem(part.Value, named, "approval.not must be %s, whoever runs the protocol, not %s", protocol.NotRunner, yamldoc.Shown(part.Value))
			}
		case "quorum":
			p.Count = c.readQuorum(part, named)
		}
	}
	switch why := protocol.UnnamedWays(a.How); {
	case c.doc.Problems() > before || p.Of == nil && !not && p.Count == 1:
		return
	case c.realm == "":
		c.doc.Problem(parts[0].Key, named, "approval.%s", protocol.NeedsLogin(parts[0].Name))
	case why != "":
		c.doc.Problem(parts[0].Key, named, "approval.how %s", why)
	}
	a.named(p, not)
}

func (c *compiler) readBy(e yamldoc.Entry, named string) []string {
	if text, ok := yamldoc.TextOf(e.Value); ok {
		c.doc.Problem(e.Value, named, "approval.by must be a list: write [%s]", text)
		return nil
	}
	by, before := []string{}, c.doc.Problems()
	for _, item := range c.doc.Sequence(e.Value, named, "approval.by") {
		word, ok := yamldoc.TextOf(item)
		if !ok {
			c.doc.Problem(item, named, "approval.by must be a list of people and groups, and %s is not one", yamldoc.Shown(item))
			return nil
		}
		by = append(by, word)
	}
	if why := protocol.BadBy(by); why != "" && c.doc.Problems() == before {
		c.doc.Problem(e.Value, named, "approval.by %s", why)
	}
	return protocol.InRealm(by, c.realm)
}

func (c *compiler) readQuorum(e yamldoc.Entry, named string) int {
	n := 0
	if v, ok := e.Value.(*ast.IntegerNode); ok {
		n, _ = strconv.Atoi(fmt.Sprint(v.Value)) // 0 is refused
	}
	if why := protocol.BadQuorum(n); why != "" {
		c.doc.Problem(e.Value, named, "approval.quorum %s, not %s", why, yamldoc.Shown(e.Value))
	}
	return n
}
