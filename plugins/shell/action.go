package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The limits of what is parsed. The action of more than that is anything: padding must
// not make a command another one.
const (
	maxScript = 256 << 10 // bytes
	maxOpened = 2000      // parentheses, each of which may be a level of the parser
	maxParts  = 200       // of one action
	maxInner  = 4         // how deep a shell in a shell is read
)

// actionOf states what a command would do: the simple commands in it, without what does
// not change them, such as quotes, blanks, comments and the order of what they
// are part of. The host compares such a list as a set, so that a command that was
// declined is found among others, too. Where it cannot be read, command is left out.
func actionOf(command string) (action json.RawMessage, err error) {
	anything := json.RawMessage(`{"more than can be compared":true}`)
	defer func() {
		if recover() != nil { // the parser is not ours, and a command of others must not end the driver
			action, err = anything, nil
		}
	}()
	if parsable(command) {
		c := collector{seen: map[string]bool{}}
		if whole := c.script(command, 0); !whole || len(c.parts) == 0 {
			c.add(asText(command))
		}
		if !c.failed {
			return json.Marshal(map[string]any{"command": c.parts})
		}
	}
	return anything, nil
}

// parsable reports whether a script is within the limits of what is parsed.
func parsable(script string) bool {
	return len(script) <= maxScript && strings.Count(script, "(") <= maxOpened
}

// eachNode visits the nodes of a script up to the first line that cannot be parsed;
// false: there is one. visit reports whether the nodes below are visited, too.
func eachNode(script string, visit func(syntax.Node) bool) (whole bool) {
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for stmt, err := range parser.StmtsSeq(strings.NewReader(script)) {
		if err != nil {
			return false
		}
		syntax.Walk(stmt, func(n syntax.Node) bool { return n != nil && visit(n) })
	}
	return true
}

// part is one thing that a command does. A simple command is the list of its words;
// anything else is an object, so that no word can be taken for it. A word that is known only
// when the command runs is driver.Unparsed.
type part any

// asText is a command that cannot be parsed: what can be seen of it, without blanks.
func asText(command string) part {
	return driver.Unparsed{Text: strings.Join(strings.Fields(plain.Normal(command)), "")}
}

// legible is a command as a reader sees it: hidden characters are gone, and
// whatever looks like a blank or the end of a line is one.
func legible(command string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\n' || r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case plain.Hidden(r):
			return -1
		}
		return r
	}, command)
}

// collector collects the parts of scripts.
type collector struct {
	parts  []part
	seen   map[string]bool
	failed bool // there are too many, or one cannot be written
}

// script collects the parts of a script; false: it is not whole, because it cannot be
// parsed to its end. A shell runs the lines before an error, so that these count.
func (c *collector) script(text string, inner int) (whole bool) {
	if inner > maxInner {
		return false
	}
	return eachNode(legible(text), func(n syntax.Node) bool {
		if !c.failed {
			c.node(n, inner)
		}
		return !c.failed
	})
}

func (c *collector) node(n syntax.Node, inner int) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		for _, a := range n.Assigns {
			c.add(map[string]string{"set": printed(a)})
		}
		c.command(openWords(n.Args), inner)
	case *syntax.Redirect:
		c.add(map[string]string{"redirect": redirection(n)})
	case *syntax.FuncDecl:
		if n.Name != nil {
			c.add(map[string]string{"function": n.Name.Value})
		}
	case *syntax.WordIter:
		c.add(map[string][]string{"for": append([]string{n.Name.Value}, wordsOf(n.Items)...)})
	case *syntax.CaseClause:
		c.add(map[string]string{"case": wordOf(n.Word)})
	case *syntax.DeclClause, *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		c.add(map[string]string{"does": printed(n)})
	}
}

// redirection is a redirection with what it writes to or reads.
func redirection(r *syntax.Redirect) string {
	text := r.Op.String()
	if r.N != nil {
		text = r.N.Value + text
	}
	if text += " " + wordOf(r.Word); r.Hdoc != nil {
		text += "\n" + wordOf(r.Hdoc)
	}
	return text
}

// command adds a simple command, and what it runs in turn as far as that can be read.
func (c *collector) command(words []string, inner int) {
	if len(words) == 0 {
		return
	}
	words[0] = program(words[0])
	if words[0] == ":" || words[0] == "true" {
		return
	}
	c.add(stated(withFlags(words)))
	for _, other := range readings(words) {
		c.add(reading{stated(other)})
	}
	rest := within(words)
	switch {
	case runsUnread(words, rest):
		c.add(driver.Unparsed{Text: strings.Join(written(words), " ")})
	case len(rest) == 0:
	case words[0] == "eval":
		c.inner(strings.Join(written(rest), " "), inner)
	case shells[words[0]]:
		c.inner(written(rest)[0], inner)
	default:
		c.command(rest, inner)
	}
}

// inner adds the parts of a script that is an argument.
func (c *collector) inner(script string, inner int) {
	if !c.script(script, inner+1) {
		c.add(asText(script))
	}
}

func (c *collector) add(p part) {
	key, err := json.Marshal(p)
	switch {
	case err != nil || len(c.parts) >= maxParts:
		c.failed = true
	case !c.seen[string(key)]:
		c.seen[string(key)] = true
		c.parts = append(c.parts, p)
	}
}

func printed(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.Minify(true)).Print(&b, n); err != nil {
		return fmt.Sprintf("%T", n) // the parser makes nothing that cannot be printed
	}
	return b.String()
}
