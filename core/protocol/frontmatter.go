package protocol

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// The limits of front matter. Those of tokens and nesting keep the YAML parser,
// whose time is quadratic in both, far below a second.
const (
	maxFrontMatter = 64 << 10 // bytes
	maxYAMLTokens  = 10_000
	maxYAMLNesting = 32
	maxTags        = 100
	maxWord        = 200 // characters of a tag, a trigger, a slug or a version
)

// MaxTriggers is how many triggers a protocol has at most.
const MaxTriggers = 20

// frontMatter is the YAML at the start of a document.
type frontMatter struct {
	span         // in the document, with the lines of dashes
	raw   string // between them
	line  int    // 1-based line of the document at which raw begins
	title string // in the form of a heading
	name  string // as title; other programs title a document by it
	// description says when the protocol is needed; other programs choose a document by it.
	description string
	slug        string
	// version is as written: 1.10 is not 1.1.
	version string
	tags    []string
	// triggers are phrases that people say when they need the protocol.
	triggers []string

	ofOne []frontKey // keys that apply to a single protocol
}

// frontKey is a key and its place.
type frontKey struct {
	name string
	at   Place
}

var (
	// A thematic break is a line of dashes, too. Front matter begins with a key,
	// immediately or after comments; after blank lines with one of our keys.
	startsWithKey = regexp.MustCompile(`\A(?:(?:[ \t]*\n)+(?:slug|version|title|tags|triggers)` +
		`|(?:#[^\n]*\n)*(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z_][\w .-]*))[ \t]*:(?:[ \t\n]|\z)`)
	// With one of our keys it is treated as front matter even if it is faulty.
	hasOurKey  = regexp.MustCompile(`(?m)^(?:slug|version|title|tags|triggers)[ \t]*:(?:[ \t]|$)`)
	endOfFront = regexp.MustCompile(`(?m)^(?:---|\.\.\.)[ \t\r]*$`)

	ourKeys     = []string{"slug", "version", "title", "name", "description", "tags", "triggers"}
	slugPattern = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._/-]*$`)
)

// takeFrontMatter reads the front matter and returns the document with blanks
// in its place, so that all positions stay the same.
func takeFrontMatter(src string) (f frontMatter, rest string, found findings) {
	f, ok, problem := findFrontMatter(src)
	if !ok {
		if problem != nil {
			found.add(*problem)
		}
		return frontMatter{}, src, found
	}
	body, broken := readYAML(f.raw)
	if broken != nil && !meantAsFront(f.raw) {
		broken.Line += f.line - 1
		broken.Severity = driver.SeverityWarning
		broken.Message = "the text below the first line is read as Markdown, because it is not front matter: " + broken.Message
		found.add(*broken)
		return frontMatter{}, src, found
	}
	p := frontParser{front: f}
	if broken != nil {
		p.add(f.explained(*broken))
	} else {
		p.readKeys(body)
	}
	blank := []byte(src)
	for i := f.start; i < f.end; i++ {
		if blank[i] != '\n' {
			blank[i] = ' '
		}
	}
	return p.front, string(blank), p.findings
}

// findFrontMatter looks for front matter at the start of the text. A problem is
// front matter that is not closed.
func findFrontMatter(src string) (f frontMatter, ok bool, problem *Diagnostic) {
	start := len(src) - len(strings.TrimLeft(src, " \t\r\n"))
	start = strings.LastIndexByte(src[:start], '\n') + 1
	dashes, rest, _ := strings.Cut(src[start:], "\n")
	if strings.TrimRight(dashes, " \t\r") != "---" || !startsWithKey.MatchString(rest[:min(len(rest), maxFrontMatter)]) {
		return frontMatter{}, false, nil
	}
	from := start + len(dashes) + 1
	f = frontMatter{line: strings.Count(src[:from], "\n") + 1}
	within := rest
	if len(rest) > maxFrontMatter {
		within = rest[:strings.LastIndexByte(rest[:maxFrontMatter], '\n')+1] // whole lines
	}
	end := endOfFront.FindStringIndex(within)
	if end == nil {
		if first, _, _ := strings.Cut(strings.TrimLeft(rest, " \t\n"), "\n"); hasOurKey.MatchString(first) {
			problem = &Diagnostic{Severity: driver.SeverityError, Line: f.line - 1, Column: 1, Message: fmt.Sprintf(
				"the front matter is not closed by a line --- within %d KiB", maxFrontMatter>>10)}
		}
		return frontMatter{}, false, problem
	}
	f.raw = strings.TrimSuffix(rest[:end[0]], "\n")
	f.span = span{start, from + end[1]}
	return f, true, nil
}

// readYAML returns the members of the YAML mapping in the text of front matter, or an
// error with its line in the text.
func readYAML(text string) ([]*ast.MappingValueNode, *Diagnostic) {
	members, problem := parseYAML(text)
	if problem != nil {
		problem.Message = "front matter: " + problem.Message
	}
	return members, problem
}

// parseYAML returns the members of the YAML mapping in the text, or an error with its
// place in the text.
func parseYAML(text string) ([]*ast.MappingValueNode, *Diagnostic) {
	bad := func(tk *token.Token, format string, args ...any) *Diagnostic {
		d := finding(driver.SeverityError, placeOf(tk), "", fmt.Sprintf(format, args...))
		return &d
	}
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxYAMLTokens {
		return nil, bad(nil, "more than %d YAML tokens", maxYAMLTokens)
	}
	depth := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.AnchorType, token.AliasType:
			return nil, bad(tk, "anchors and aliases are not allowed")
		case token.SequenceStartType, token.MappingStartType:
			if depth++; depth > maxYAMLNesting {
				return nil, bad(tk, "nested deeper than %d levels", maxYAMLNesting)
			}
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) {
			return nil, bad(located.GetToken(), "%.200s", located.GetMessage())
		}
		return nil, bad(nil, "%.200s", err.Error())
	}
	if len(file.Docs) == 1 {
		switch m := file.Docs[0].Body.(type) {
		case *ast.MappingNode:
			return m.Values, nil
		case *ast.MappingValueNode:
			return []*ast.MappingValueNode{m}, nil
		}
	}
	return nil, bad(nil, "not a YAML mapping")
}

func placeOf(tk *token.Token) Place {
	if tk == nil || tk.Position == nil {
		return Place{1, 1}
	}
	return Place{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
}

// in is the place of a token in the document.
func (f frontMatter) in(tk *token.Token) Place {
	at := placeOf(tk)
	// The line numbers of the YAML parser may be too large after a long scalar.
	at.Line = f.line - 1 + min(at.Line, strings.Count(f.raw, "\n")+1)
	return at
}

// frontParser reads the keys of front matter.
type frontParser struct {
	findings
	front frontMatter
}

func (p *frontParser) readKeys(members []*ast.MappingValueNode) {
	for _, m := range members {
		key := p.front.in(m.Key.GetToken())
		name := m.Key.GetToken().Value
		if !slices.Contains(ourKeys, name) {
			message := fmt.Sprintf("front matter: the key %q is kept, but means nothing", cut(name))
			if meant := fields.Misspelt(name, ourKeys); meant != "" {
				message += fmt.Sprintf("; did you mean %q?", meant)
			}
			p.addAt(driver.SeverityWarning, key, message)
			continue
		}
		at := p.front.in(m.Value.GetToken())
		if name == "slug" || name == "title" || name == "triggers" {
			p.front.ofOne = append(p.front.ofOne, frontKey{name, key})
		}
		switch name {
		case "slug":
			p.front.slug = p.word(name, m.Value)
			if s := p.front.slug; s != "" && !slugPattern.MatchString(s) {
				p.addAt(driver.SeverityWarning, at, fmt.Sprintf("front matter: the slug %q should be letters, digits and -", cut(s)))
			}
		case "version":
			p.front.version = p.word(name, m.Value)
		case "title":
			p.front.title = p.title(name, m.Value)
		case "name":
			p.front.name = p.title(name, m.Value)
		case "description":
			p.front.description = p.scalar(name, m.Value)
		case "tags":
			p.front.tags = p.tags(m.Value)
		case "triggers":
			p.front.triggers = p.triggers(m.Value)
		}
	}
}

// scalar is the text of a value; empty, with a finding, if it has none.
func (p *frontParser) scalar(name string, n ast.Node) string {
	at := p.front.in(n.GetToken())
	text := ""
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		text = n.GetToken().Value
	default:
		p.addAt(driver.SeverityError, at, fmt.Sprintf("front matter: %s must be text", name))
		return ""
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(strings.Join(strings.Fields(text), ""), unicode.IsControl) {
		p.addAt(driver.SeverityError, at, fmt.Sprintf("front matter: %s must not contain control characters", name))
		return ""
	}
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		p.addAt(driver.SeverityWarning, at, fmt.Sprintf("front matter: %s has no value", name))
	}
	return text
}

func (p *frontParser) word(name string, n ast.Node) string {
	return p.within(maxWord, name, p.scalar(name, n), n)
}

func (p *frontParser) title(key string, n ast.Node) string {
	// It must survive being written as a heading and parsed again.
	return p.within(maxTitle, key, orNothing(trimClosing(p.scalar(key, n))), n)
}

// within is the text; empty, with a finding, if it has more characters.
func (p *frontParser) within(most int, name, text string, n ast.Node) string {
	if count := utf8.RuneCountInString(text); count > most {
		p.addAt(driver.SeverityError, p.front.in(n.GetToken()), fmt.Sprintf("front matter: %s has %d characters; at most %d are allowed", name, count, most))
		return ""
	}
	return text
}

// tags parses a list of tags, or one text separated by commas.
func (p *frontParser) tags(n ast.Node) []string {
	if list, ok := n.(*ast.SequenceNode); ok {
		return p.list("tags", "a tag", list, maxTags)
	}
	if _, none := n.(*ast.NullNode); none {
		return nil
	}
	var tags []string
	for tag := range strings.SplitSeq(p.scalar("tags", n), ",") {
		tags = appendNew(tags, firstRunes(strings.TrimSpace(tag), maxWord))
	}
	return tags[:min(len(tags), maxTags)]
}

// triggers parses a list of phrases, or a single one, which may contain commas.
func (p *frontParser) triggers(n ast.Node) []string {
	if list, ok := n.(*ast.SequenceNode); ok {
		return p.list("triggers", "a trigger", list, MaxTriggers)
	}
	if _, none := n.(*ast.NullNode); none {
		return nil
	}
	return appendNew(nil, p.word("a trigger", n))
}

// list parses at most limit distinct texts.
func (p *frontParser) list(name, one string, n *ast.SequenceNode, limit int) []string {
	if len(n.Values) > limit {
		p.addAt(driver.SeverityError, p.front.in(n.GetToken()), fmt.Sprintf("front matter: %d %s; at most %d are allowed", len(n.Values), name, limit))
		return nil
	}
	var texts []string
	for _, v := range n.Values {
		texts = appendNew(texts, p.word(one, v))
	}
	return texts
}

// appendNew appends a text unless it is empty or in the list.
func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// withFront applies the front matter to the chains. Only tags, version and description
// can apply to several.
func (p *parse) withFront(chains []Chain) {
	f := p.front
	for i := range chains {
		c := &chains[i]
		c.FrontMatter, c.Version, c.Tags, c.Summary = f.raw, f.version, slices.Clone(f.tags), f.description
		if len(c.Triggers) > 0 { // those of a framing section
			c.FrontMatter = f.withTriggers(c.Triggers)
		}
		if len(chains) > 1 {
			continue
		}
		c.Slug = f.slug
		if len(c.Triggers) == 0 {
			c.Triggers = slices.Clone(f.triggers)
		}
		for _, other := range []string{f.title, f.name} {
			if other != "" && c.AltTitle == "" && ChainID(other) != c.ID {
				c.AltTitle = other
			}
		}
	}
	if len(chains) < 2 {
		return
	}
	for _, key := range f.ofOne {
		p.found.addAt(driver.SeverityError, key.at, fmt.Sprintf("front matter: %s cannot apply to %d protocols; give each its own document", key.name, len(chains)))
	}
}
