package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The limits of a document.
const (
	maxDocument = 10 << 20 // bytes
	maxSteps    = 10_000
	maxTitle    = 5_000 // characters
	maxFallback = 120   // characters of a title that no heading gave
)

// Parse reads a Markdown document, or a JSON string literal of one, into one
// chain per H1. The chains have no UUIDs, space and times. Errors among the
// diagnostics mean that the document must be refused.
//
// Line ends become \n. Front matter is not read.
func Parse(doc []byte) ([]Chain, []Diagnostic) {
	src, problem := source(doc)
	if problem != nil {
		return nil, []Diagnostic{*problem}
	}
	p := &parse{outline: outlineOf(src)}
	chains := p.chains()
	if len(chains) == 0 && !hasErrors(p.found) {
		p.fail(0, "", "the document holds no step")
	}
	return chains, p.found
}

func hasErrors(found []Diagnostic) bool {
	for _, d := range found {
		if d.Severity == driver.SeverityError {
			return true
		}
	}
	return false
}

var lineEnds = regexp.MustCompile(`\r+\n`)

// source is the document as it is parsed: decoded, without byte order marks,
// with \n at the line ends.
func source(doc []byte) (string, *Diagnostic) {
	bad := func(format string, args ...any) (string, *Diagnostic) {
		return "", &Diagnostic{Severity: driver.SeverityError, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	}
	if len(doc) > maxDocument {
		return bad("the document has %d bytes; at most %d are allowed", len(doc), maxDocument)
	}
	if !utf8.Valid(doc) {
		return bad("the document is not valid UTF-8")
	}
	s := unwrap(doc)
	if strings.ContainsRune(s, 0) {
		return bad("the document contains a NUL character")
	}
	if strings.TrimSpace(s) == "" {
		return bad("the document is empty")
	}
	return lineEnds.ReplaceAllString(s, "\n"), nil
}

// unwrap decodes JSON string literals, as often as one is wrapped in another.
func unwrap(doc []byte) string {
	s := strings.TrimLeft(string(doc), "\ufeff")
	for {
		var inner string
		t := strings.TrimSpace(s)
		if !strings.HasPrefix(t, `"`) || json.Unmarshal([]byte(t), &inner) != nil {
			return s
		}
		s = strings.TrimLeft(inner, "\ufeff")
	}
}

// parse is one run of the parser.
type parse struct {
	outline
	found []Diagnostic
	// The lines counted so far, because positions mostly ascend.
	countedTo, line int
}

// section is an H1 with all that belongs to it.
type section struct {
	span
	title    *heading // nil: the document has no H1
	headings []heading
}

func (p *parse) chains() []Chain {
	sections, named := p.sections(), 0
	for _, s := range sections {
		named += len(s.headings)
	}
	if named > maxSteps {
		p.fail(0, "", fmt.Sprintf("the document has %d steps; at most %d are allowed", named, maxSteps))
		return nil
	}
	if named == 0 {
		return []Chain{p.single(span{0, len(p.src)})}
	}
	var chains []Chain
	titles := map[string]bool{}
	for _, s := range sections {
		c, ok := p.chain(s)
		if !ok {
			continue
		}
		if titles[c.ID] {
			p.fail(s.start, "", fmt.Sprintf("two protocols of the document have the title %q", c.Title))
		}
		titles[c.ID] = true
		chains = append(chains, c)
	}
	return chains
}

// sections splits the document at its H1s. Without one, all of it is a section.
func (p *parse) sections() []section {
	var out []section
	for i, h := range p.headings {
		if h.level == 1 {
			out = append(out, section{span: span{h.start, len(p.src)}, title: &p.headings[i]})
		}
	}
	if len(out) == 0 {
		out = []section{{span: span{0, len(p.src)}}}
	}
	for i := range out[1:] {
		out[i].end = out[i+1].start
	}
	for _, h := range p.headings {
		p.place(out, h)
	}
	if out[0].start > 0 && strings.TrimSpace(p.src[:out[0].start]) != "" {
		p.warn(0, "", "the text before the first H1 belongs to no protocol and is dropped")
	}
	return out
}

// place puts a step heading into its section.
func (p *parse) place(sections []section, h heading) {
	if h.level != 2 {
		return
	}
	if h.text == "" {
		p.warn(h.start, "", "an empty H2 begins no step; it stays in the text")
		return
	}
	for i := len(sections) - 1; i >= 0; i-- {
		if sections[i].contains(h.start) {
			sections[i].headings = append(sections[i].headings, h)
			return
		}
	}
}

// chain reads one section; it reports false for a section with nothing in it.
func (p *parse) chain(s section) (Chain, bool) {
	if len(s.headings) == 0 {
		if strings.TrimSpace(p.src[s.title.end:s.end]) == "" {
			p.warn(s.start, "", fmt.Sprintf("the H1 %q has no text and no steps; it is dropped", s.title.text))
			return Chain{}, false
		}
		return p.single(s.span), true
	}
	c := Chain{Title: sanitise(s.headings[0].text)}
	from := s.start
	if s.title != nil {
		c.Title, from = s.title.text, s.title.end
	}
	if c.Title == "" {
		p.fail(s.start, "", "the H1 has no text; a protocol needs a title")
	}
	if n := utf8.RuneCountInString(c.Title); n > maxTitle {
		p.fail(s.start, "", fmt.Sprintf("the title has %d characters; at most %d are allowed", n, maxTitle))
	}
	c.ID = ChainID(c.Title)
	about := span{from, s.headings[0].start}
	c.Description = trimBlank(p.src[about.start:about.end])
	c.Inputs = p.inputs(about)
	for i, h := range s.headings {
		end := s.end
		if i+1 < len(s.headings) {
			end = s.headings[i+1].start
		}
		c.Steps = append(c.Steps, p.step(h, span{h.end, end}))
	}
	p.found = append(p.found, nameSteps(c.Steps)...)
	return c, true
}

// single reads text without step headings as a chain of one step. Such a
// step has no challenge, as existing clients know it.
func (p *parse) single(s span) Chain {
	label := p.singleLabel(s)
	step := Step{Label: label, Text: trimBlank(p.src[s.start:s.end]), Line: p.lineOf(s.start)}
	step.Tags = Tags(step)
	if f, ok := p.lastFence(s); ok && looksLikeChallenge(f) {
		p.warn(f.start, label, "a document without H2 has no challenge; give the step an H2 heading to make this block one")
	}
	c := Chain{ID: ChainID(label), Title: label, Steps: []Step{step}}
	p.found = append(p.found, nameSteps(c.Steps)...)
	return c
}

func (p *parse) singleLabel(s span) string {
	for _, h := range p.headings {
		if s.contains(h.start) && h.text != "" {
			return cut(h.text, maxFallback)
		}
	}
	for line := range strings.Lines(p.src[s.start:s.end]) {
		if line = strings.TrimSpace(line); line != "" {
			return cut(line, maxFallback)
		}
	}
	return "Memory"
}

// cut is the first n characters of s.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		s = string(r[:n])
	}
	return strings.TrimSpace(s)
}

// step reads one step: its heading and the body behind it.
func (p *parse) step(h heading, body span) Step {
	s := Step{Label: sanitise(h.text), Line: p.lineOf(h.start)}
	if n := utf8.RuneCountInString(s.Label); n > maxTitle {
		p.fail(h.start, cut(s.Label, maxFallback), fmt.Sprintf("the heading has %d characters; at most %d are allowed", n, maxTitle))
	}
	rest := p.takeChallenge(&s, body)
	s.Text = joinHeading(s.Label, rest)
	s.Tags = Tags(s)
	return s
}

func joinHeading(label, body string) string {
	return trimBlank("## " + label + "\n" + strings.TrimRight(body, " \t\r\n"))
}

// trimBlank removes blank lines at the start and all blanks at the end.
func trimBlank(s string) string {
	for {
		i := strings.IndexByte(s, '\n')
		if i < 0 || strings.Trim(s[:i], " \t\r") != "" {
			return strings.TrimRight(s, " \t\r\n")
		}
		s = s[i+1:]
	}
}

// inputs finds the declaration of the run's inputs in a description.
func (p *parse) inputs(about span) json.RawMessage {
	var declared json.RawMessage
	for _, f := range p.within(about) {
		if f.language != "json" && f.language != "" || !bytes.Contains([]byte(f.content), []byte(`"inputs"`)) {
			continue
		}
		top, err := members([]byte(f.content))
		if err != nil || !isObject([]byte(f.content)) {
			if f.language == "json" {
				p.jsonProblem(f, "", err)
			}
			continue
		}
		schema, ok := top["inputs"]
		switch {
		case !ok:
		case !isObject(schema):
			p.fail(f.start, "", `"inputs" must be a JSON Schema object`)
		case declared != nil:
			p.fail(f.start, "", "the inputs are declared twice")
		default:
			declared = schema
		}
	}
	return declared
}

func (p *parse) fail(pos int, step, message string) {
	p.report(driver.SeverityError, pos, step, message)
}
func (p *parse) warn(pos int, step, message string) {
	p.report(driver.SeverityWarning, pos, step, message)
}

func (p *parse) report(severity driver.Severity, pos int, step, message string) {
	column := utf8.RuneCountInString(p.src[p.lineStart(pos):pos]) + 1
	p.found = append(p.found, Diagnostic{
		Severity: severity, Line: p.lineOf(pos), Column: column, Step: step, Message: message,
	})
}

// lineOf is the 1-based line of a position.
func (p *parse) lineOf(pos int) int {
	if pos < p.countedTo {
		p.countedTo, p.line = 0, 0
	}
	p.line += strings.Count(p.src[p.countedTo:pos], "\n")
	p.countedTo = pos
	return p.line + 1
}
