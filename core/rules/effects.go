package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/yamldoc"
)

func (c *compiler) readEvidence(r *rule, e yamldoc.Entry, named string) {
	word, _ := yamldoc.TextOf(e.Value)
	from := protocol.EvidenceFrom(word)
	words := []string{string(protocol.FromAnyone), string(protocol.FromPerson), string(protocol.FromServer)}
	switch {
	case from == protocol.FromAnyone: // as if it were left out: rules only add
	case from.Provenances() == nil:
		hint := yamldoc.Suggest(word, words)
		c.doc.Problem(e.Value, named, "evidence must be %s, not %s%s", strings.Join(words, ", "), yamldoc.Shown(e.Value), hint)
	default:
		r.demand.Evidence = from.Provenances()
	}
}

func (c *compiler) readApproval(r *rule, e yamldoc.Entry, named string) {
	if yamldoc.KindOf(e.Value) != "a mapping" {
		c.doc.Problem(e.Value, named, "approval must be a mapping such as {}, {phrase: true}, {how: [form, page]}, {after: 1s} or {by: [group:release], not: runner}, not %s", yamldoc.Shown(e.Value))
		return
	}
	list, _ := c.doc.Entries(e.Value, named, "approval")
	a := &Approval{}
	var people []yamldoc.Entry
	for _, part := range list {
		switch {
		case part.Name == "how":
			a.How = c.readHow(part, named)
		case part.Name == "phrase":
			c.readPhrase(r, a, part, named)
		case part.Name == "after":
			a.After = c.readAfter(part, named)
		case slices.Contains(peopleKeys, part.Name):
			people = append(people, part)
		default:
			hint := yamldoc.Suggest(part.Name, approvalKeys)
			if hint == "" {
				hint = "; known are " + strings.Join(approvalKeys, ", ")
			}
			c.doc.Problem(part.Key, named, "unknown key %.80q in approval%s", part.Name, hint)
		}
	}
	c.readPeople(a, people, named)
	r.demand.Approval = a
}

func (c *compiler) readHow(e yamldoc.Entry, named string) []string {
	if text, ok := yamldoc.TextOf(e.Value); ok {
		c.doc.Problem(e.Value, named, "approval.how must be a list: write [%s]", text)
		return nil
	}
	how, before := []string{}, c.doc.Problems()
	for _, item := range c.doc.Sequence(e.Value, named, "approval.how") {
		word, ok := yamldoc.TextOf(item)
		if !ok {
			c.doc.Problem(item, named, "approval.how must be a list of words, and %s is not one", yamldoc.Shown(item))
			return nil
		}
		how = append(how, word)
		if why := c.unknownWay(word); why != "" {
			c.doc.Problem(item, named, "approval.how: %s", why)
		}
	}
	if why := protocol.BadHow(how); why != "" && c.doc.Problems() == before {
		c.doc.Problem(e.Value, named, "approval.how %s", why)
	}
	return protocol.WithParts(how)
}

// unknownWay says that no locked driver answers so; empty: one does, or none says how it answers.
func (c *compiler) unknownWay(word string) string {
	known := c.known.ways
	if c.realm != "" {
		known = protocol.WithParts(known)
	}
	switch {
	case c.realm == "" && protocol.Unmet([]string{word}) != "":
		return protocol.Unmet([]string{word})
	case len(known) == 0 || slices.Contains(known, word):
		return ""
	}
	hint := yamldoc.Suggest(word, known)
	if hint == "" {
		hint = "; the ways are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("no locked driver answers an approval by %.80q%s", word, hint)
}

// maxAfter bounds how long a person may be made to wait with an answer.
const maxAfter = 10 * time.Minute

// readAfter reads how long an answer has to take at least.
func (c *compiler) readAfter(e yamldoc.Entry, named string) time.Duration {
	word, _ := yamldoc.TextOf(e.Value)
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 || d > maxAfter {
		c.doc.Problem(e.Value, named, "approval.after must be a duration such as 1s, more than 0 and at most %s, not %s", maxAfter, yamldoc.Shown(e.Value))
		return 0
	}
	return d
}

// readPhrase reads true, for the step's name, or what has to be typed.
func (c *compiler) readPhrase(r *rule, a *Approval, e yamldoc.Entry, named string) {
	if b, ok := e.Value.(*ast.BoolNode); ok {
		if r.named = b.Value; !b.Value {
			c.doc.Problem(e.Value, named, "approval.phrase: true asks for the step's name, and a text for that text: leave it out where nothing has to be typed")
		}
		return
	}
	phrase, ok := yamldoc.TextOf(e.Value)
	if !ok {
		c.doc.Problem(e.Value, named, "approval.phrase must be true or a text in quotes, not %s", yamldoc.Shown(e.Value))
		return
	}
	if why := protocol.BadPhrase(phrase); why != "" {
		c.doc.Problem(e.Value, named, "approval.phrase %s", why)
		return
	}
	a.Phrases = []string{phrase}
}

func (c *compiler) readJudge(r *rule, e yamldoc.Entry, named string) {
	name, _ := yamldoc.TextOf(e.Value)
	if slices.Contains(c.known.judges, name) {
		r.demand.Judge = name
		return
	}
	hint := yamldoc.Suggest(name, c.known.judges)
	if hint == "" {
		hint = "; those that judge are " + strings.Join(c.known.judges, ", ")
	}
	if len(c.known.judges) == 0 {
		hint = ": no locked driver judges"
	}
	c.doc.Problem(e.Value, named, "judge must be a locked capability driver that judges, not %s%s", yamldoc.Shown(e.Value), hint)
}
