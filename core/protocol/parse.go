package protocol

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// MaxDocument is the largest document in bytes.
const MaxDocument = 10 << 20

// The other limits of a document.
const (
	maxSteps    = 10_000
	maxChains   = 500
	maxHeadings = 50_000 // not counting those of steps
	maxLines    = 500_000
	maxBlocks   = 200_000   // headings, paragraphs, lists, their items, code blocks, ...
	maxNested   = 1_000_000 // open blocks of a line beyond freeNesting, summed over the lines
	freeNesting = 4
	maxFindings = 1_000
	maxMessage  = 2_000   // bytes of a finding
	maxTitle    = 5_000   // characters
	maxText     = 1 << 20 // bytes of a description, and of a step without its challenge
	maxFallback = 120     // characters of the title of a document without steps
	maxNesting  = 200     // markers of quotes and lists on one line, two columns of indentation counting as one
)

// Parse parses a Markdown document, or a JSON string literal of one, into one
// chain per H1. The chains have no UUIDs, space and times. The document must be
// rejected if there are errors among the diagnostics. Line ends become \n.
func Parse(doc []byte) ([]Chain, []Diagnostic) {
	src, problem := source(doc)
	if problem != nil {
		return nil, []Diagnostic{*problem}
	}
	front, src, found := takeFrontMatter(src)
	p := &parse{found: found, front: front}
	if strings.TrimSpace(src) == "" {
		p.found.add(Diagnostic{Severity: driver.SeverityError, Line: 1, Column: 1, Message: "the document is empty but for its front matter"})
		return nil, p.found.list
	}
	p.text = outlineOf(src)
	chains := p.chains()
	if len(chains) == 0 && !p.found.failed {
		p.fail(0, "", "the document holds no step")
	}
	p.withFront(chains)
	SortDiagnostics(p.found.list)
	if p.weight.excess != "" {
		return nil, p.found.list // nothing more is looked for in what is too large
	}
	return chains, p.found.list
}

// parse is one run of the parser.
type parse struct {
	text   outline
	found  findings
	front  frontMatter
	weight weight
}

// section is an H1 with its content.
type section struct {
	span
	title    *heading // nil: the document has no H1
	headings []heading
}

func (p *parse) chains() []Chain {
	if p.exceeded() {
		return nil
	}
	p.warnHeadings()
	if !slices.ContainsFunc(p.text.headings, heading.isStep) {
		return []Chain{p.single(span{0, len(p.text.src)})}
	}
	var chains []Chain
	titles := map[string]bool{}
	for _, s := range p.sections() {
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

const splitIt = ": split it into several documents"

// exceeded reports whether the document exceeds a limit, and adds a finding.
func (p *parse) exceeded() bool {
	if p.text.excess == "" {
		return false
	}
	p.fail(0, "", p.text.excess+splitIt)
	return true
}

// read reads a block of JSON or YAML; false: it cannot be read. It reports what is
// neither, and the first block that exceeds a limit of the document.
func (p *parse) read(f fence, step string) (block, bool) {
	b := block{fence: f, json: []byte(f.content)}
	if p.weight.excess != "" {
		return b, false
	}
	if f.isYAML() {
		if !p.weight.yaml(f.content) {
			p.fail(f.start, step, p.weight.excess)
			return b, false
		}
		var problem *Diagnostic
		if b, problem = p.text.yamlBlock(f); problem != nil {
			problem.Step = step
			p.found.add(*problem)
			return b, false
		}
	}
	if !p.weight.block(b.json) {
		p.fail(f.start, step, p.weight.excess)
		return b, false
	}
	if b.anchors == nil {
		b.anchors = p.text.anchorsOf(f)
	}
	var err error
	if b.top, err = members(b.json); err != nil {
		p.readProblem(b, step, err)
	}
	return b, err == nil
}

// warnHeadings warns of H2s that may not be meant as steps.
func (p *parse) warnHeadings() {
	hashed := slices.ContainsFunc(p.text.headings, func(h heading) bool { return h.level == 2 && !h.underlined })
	for _, h := range p.text.headings {
		switch {
		case h.level != 2:
		case h.text == "":
			p.warn(h.start, "", "an empty H2 begins no step; it stays in the text")
		case h.underlined && hashed:
			p.warn(h.start, "", "the line of dashes below makes this text a step heading; put a blank line between if that is not meant")
		}
	}
}

// stepHeadings are the headings of a range that begin a step.
func (o outline) stepHeadings(s span) []heading {
	return slices.DeleteFunc(slices.Clone(o.headingsIn(s)), func(h heading) bool { return !h.isStep() })
}

// sections splits the document at its H1s. Without one, the whole document is a
// section.
func (p *parse) sections() []section {
	var out []section
	for i, h := range p.text.headings {
		if h.level == 1 {
			out = append(out, section{span: span{h.start, len(p.text.src)}, title: &p.text.headings[i]})
		}
	}
	if len(out) == 0 {
		out = []section{{span: span{0, len(p.text.src)}}}
	}
	for i := range out[1:] {
		out[i].end = out[i+1].start
	}
	for i := range out {
		out[i].headings = p.text.stepHeadings(out[i].span)
	}
	if before := (span{0, out[0].start}); strings.TrimSpace(p.text.src[:before.end]) != "" {
		message := "the text before the first H1 belongs to no protocol and is dropped"
		if n := len(p.text.stepHeadings(before)); n > 0 {
			message += fmt.Sprintf(", step headings included (%d)", n)
		}
		p.warn(0, "", message)
	}
	return out
}

// chain parses one section; false: the section is empty.
func (p *parse) chain(s section) (Chain, bool) {
	if len(s.headings) == 0 {
		if strings.TrimSpace(p.text.src[s.title.end:s.end]) == "" {
			p.warn(s.start, "", fmt.Sprintf("the H1 %q has no text and no steps; it is dropped", s.title.text))
			return Chain{}, false
		}
		return p.single(s.span), true
	}
	c := Chain{Title: sanitise(s.headings[0].text)}
	from := s.start
	switch {
	case s.title != nil:
		c.Title, from = s.title.text, s.title.end
	case p.front.title != "":
		c.Title = p.front.title
	}
	if c.Title == "" {
		p.fail(s.start, "", "the H1 has no text; a protocol needs a title")
	}
	if n := utf8.RuneCountInString(c.Title); n > maxTitle {
		p.fail(s.start, "", fmt.Sprintf("the title has %d characters; at most %d are allowed", n, maxTitle))
	}
	c.ID = ChainID(c.Title)
	about := span{from, s.headings[0].start}
	c.Description = trimBlank(p.text.src[about.start:about.end])
	if c.Inputs = p.inputs(about); !p.weight.text("the description", about.end-about.start) {
		p.fail(about.start, "", p.weight.excess)
	}
	for i, h := range s.headings {
		end := s.end
		if i+1 < len(s.headings) {
			end = s.headings[i+1].start
		}
		c.Steps = append(c.Steps, p.step(h, span{h.end, end}))
	}
	warnLabels(p, s.headings, c.Steps)
	p.frame(&c)
	p.found.add(nameSteps(c.Steps)...)
	return c, true
}

// single parses text without step headings as a chain of one step. Such a step has
// no challenge, as existing clients expect.
func (p *parse) single(s span) Chain {
	label := p.text.singleLabel(s, p.front.title)
	if !p.weight.text("the text of the step", s.end-s.start) {
		p.fail(s.start, label, p.weight.excess)
	}
	step := Step{Label: label, Text: trimBlank(p.text.src[s.start:s.end]), Line: p.text.lineOf(s.start)}
	step.Tags = Tags(step)
	if f, ok := p.text.lastFence(s); ok && lookOf(f).meant() {
		p.found.add(tolerated(p.text.placeOf(f.start), label, "a document without H2 has no challenge; give the step an H2 heading to make this block one"))
	}
	c := Chain{Title: label, Steps: []Step{step}}
	if p.front.title != "" && !slices.ContainsFunc(p.text.headingsIn(s), func(h heading) bool { return h.level == 1 && h.text != "" }) {
		c.Title = p.front.title
	}
	c.ID = ChainID(c.Title)
	p.found.add(nameSteps(c.Steps)...)
	return c
}

// notWords matches a line that is not a title: a row of a table, a comment, a fence, or
// a line of dashes.
var notWords = regexp.MustCompile("^\\s*(?:\\||<!--|-->|```|~~~|-{3,}\\s*$|\\*{3,}\\s*$)")

// singleLabel is a title that fits into a heading; front is that of the front matter.
func (o outline) singleLabel(s span, front string) string {
	for _, h := range o.headingsIn(s) {
		if label := orNothing(trimClosing(cut(h.text))); label != "" {
			return label
		}
	}
	if front != "" {
		return trimClosing(cut(front))
	}
	for line := range strings.Lines(o.src[s.start:s.end]) {
		if notWords.MatchString(line) {
			continue
		}
		if label := orNothing(trimClosing(cut(strings.TrimSpace(line)))); label != "" {
			return label
		}
	}
	return "Memory"
}

// cut shortens s for a label or a message.
func cut(s string) string {
	if r := []rune(s); len(r) > maxFallback {
		s = string(r[:maxFallback])
	}
	return strings.TrimSpace(s)
}

// step parses one step: its heading and the body after it.
func (p *parse) step(h heading, body span) Step {
	s := Step{Label: sanitise(h.text), Line: p.text.lineOf(h.start)}
	if n := utf8.RuneCountInString(s.Label); n > maxTitle {
		p.fail(h.start, cut(s.Label), fmt.Sprintf("the heading has %d characters; at most %d are allowed", n, maxTitle))
	}
	rest := p.takeChallenge(&s, body)
	if p.weight.excess != "" {
		return s
	}
	if !p.weight.text("the text of the step", len(rest)) {
		p.fail(h.start, s.Label, p.weight.excess)
		return s
	}
	s.Text = joinHeading(h.text, rest)
	s.Tags = Tags(s)
	return s
}

func joinHeading(heading, body string) string {
	return trimBlank("## " + heading + "\n" + strings.TrimRight(body, " \t\r\n"))
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

func (p *parse) fail(pos int, step, message string) {
	p.found.failAt(p.text.placeOf(pos), step, message)
}
func (p *parse) warn(pos int, step, message string) {
	p.found.warnAt(p.text.placeOf(pos), step, message)
}
