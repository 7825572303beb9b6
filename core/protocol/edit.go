package protocol

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ParseStep parses the new text of step i, like the function ParseStep, and makes
// it a step of this chain: it keeps the UUID, the heading if the text has none,
// and the form of a document that is a single text without H2. The output of
// RenderStep is parsed to an equal step.
//
// The names of a chain depend on each other: call Rename once the step is in its
// place.
func (c Chain) ParseStep(i int, doc []byte) (Step, []Diagnostic) {
	old := c.Steps[i]
	s, found := c.parseStep(i, doc)
	s.UUID = old.UUID
	if s.Label == "" {
		heading := headingOf(old.Heading())
		s.Label, s.Text = sanitise(heading), joinHeading(heading, "\n"+s.Text)
	}
	s.Tags = Tags(s)
	return s, found
}

// ParseText is ParseStep for the text of a step alone: it may begin with the
// step's own H2, and any other heading that would begin a step or a protocol is an
// error.
func (c Chain) ParseText(i int, doc []byte) (Step, []Diagnostic) {
	s, found := c.ParseStep(i, doc)
	src, problem := source(doc)
	if problem != nil {
		return s, found
	}
	if _, headed := s.ownHeading(); !headed && c.isOneText() {
		return s, found
	}
	p := &parse{text: outlineOf(betweenMarkers(src))}
	for _, h := range p.text.headings {
		switch {
		case h.text == "" || h.level > 2:
		case h.level == 1:
			p.fail(h.start, "", "an H1 is the title of a protocol, and this is the text of one step; use ### or deeper here, or mint the whole protocol to change its title")
		case strings.TrimSpace(p.text.src[:h.start]) != "":
			p.fail(h.start, "", "this heading would begin another step, and this is the text of one; use ### or deeper here, or mint the whole protocol to add a step")
		}
	}
	if p.found.failed {
		return s, p.found.list
	}
	return s, found
}

func (c Chain) parseStep(i int, doc []byte) (Step, []Diagnostic) {
	old := c.Steps[i]
	src, problem := source(doc)
	if problem != nil {
		return Step{}, []Diagnostic{*problem}
	}
	src = betweenMarkers(src)
	if c.isOneText() {
		if s, ok := c.oneText(src); ok {
			return s, nil
		}
	}
	if f, ok, _ := findFrontMatter(src); ok && trimBlank(src) != old.Text {
		if _, broken := readYAML(f.raw); broken == nil {
			return Step{}, []Diagnostic{{
				Severity: driver.SeverityError, Line: f.line - 1, Column: 1,
				Message: "front matter belongs to a protocol, not to a step; mint the whole protocol to change it",
			}}
		}
	}
	if i == len(c.Steps)-1 {
		return parseStep(doc, openLast)
	}
	return ParseStep(doc)
}

// isOneText reports whether the chain is that of a document without H2.
func (c Chain) isOneText() bool {
	if len(c.Steps) != 1 || c.Steps[0].Challenge != nil {
		return false
	}
	_, headed := c.Steps[0].ownHeading()
	return !headed
}

// oneText parses the text of a chain without H2. It reports false if the text
// gives the step a heading or a challenge, or the chain another title.
func (c Chain) oneText(src string) (Step, bool) {
	p := &parse{text: outlineOf(src)}
	p.front.title = c.frontTitle()
	all := span{0, len(p.text.src)}
	if p.text.excess != "" || len(p.text.stepHeadings(all)) > 0 {
		return Step{}, false
	}
	text := trimBlank(src)
	if f, ok := p.text.lastFence(all); ok && lookOf(f).meant() && text != c.Steps[0].Text {
		return Step{}, false
	}
	one := p.single(all)
	return one.Steps[0], text != "" && one.Title == c.Title
}

// frontTitle is the title of the front matter.
func (c Chain) frontTitle() string {
	if c.FrontMatter == "" {
		return ""
	}
	front, _, _ := takeFrontMatter("---\n" + c.FrontMatter + "\n---\n")
	return front.title
}

// headingOf is a heading in the form in which an H2 preserves it.
func headingOf(heading string) string {
	return cmp.Or(trimClosing(strings.Join(strings.Fields(heading), " ")), "Step")
}

// Rename returns the chain with its steps named by their challenges and headings,
// after steps were changed or removed. It reports duplicate names, and a step that
// would not be read back as one.
func (c Chain) Rename() (Chain, []Diagnostic) {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Name = ""
	}
	return c, append(nameSteps(c.Steps), c.framing()...)
}

var (
	bodyStart = regexp.MustCompile(`(?i)<!--\s*KAIROS:BODY-START\s*-->`)
	bodyEnd   = regexp.MustCompile(`(?i)<!--\s*KAIROS:BODY-END\s*-->`)
)

// ParseStep parses the new text of a step. If the markers KAIROS:BODY-START and
// KAIROS:BODY-END are present, only the text between them counts. A lone H1 is the
// heading of the step. Without a heading the Label is empty and the Text has no
// heading: the caller keeps the heading and puts it above the text. The Name
// is that of the challenge or the slug of the label, and may be empty.
func ParseStep(doc []byte) (Step, []Diagnostic) { return parseStep(doc, openEnd) }

// parseStep parses a step; open says what is not allowed at its place, given the
// expected number of headings.
func parseStep(doc []byte, open func(s Step, headings int) string) (Step, []Diagnostic) {
	src, problem := source(doc)
	if problem != nil {
		return Step{}, []Diagnostic{*problem}
	}
	src = betweenMarkers(src)
	if strings.TrimSpace(src) == "" {
		_, problem = source(nil)
		return Step{}, []Diagnostic{*problem}
	}
	p := &parse{text: outlineOf(src)}
	if p.exceeded() {
		return Step{}, p.found.list
	}
	s := p.onlyStep()
	if !p.found.failed {
		if problem := open(s, min(1, len(s.Label))); problem != "" {
			p.fail(0, s.Label, problem)
		}
	}
	return s, p.found.list
}

func betweenMarkers(src string) string {
	start := bodyStart.FindStringIndex(src)
	if start == nil {
		return src
	}
	body := src[start[1]:]
	if end := bodyEnd.FindStringIndex(body); end != nil {
		body = body[:end[0]]
	}
	return trimBlank(body)
}

func (p *parse) onlyStep() Step {
	var ones, twos []heading
	for _, h := range p.text.headings {
		switch {
		case h.level == 1 && h.text != "":
			ones = append(ones, h)
		case h.level == 2 && h.text != "":
			twos = append(twos, h)
		}
	}
	if len(twos) == 0 {
		twos, ones = ones, nil
	}
	switch {
	case len(twos) == 0:
		return p.bodyOnly()
	case len(twos) > 1:
		p.fail(twos[1].start, "", "the text has several headings; it replaces one step")
		return Step{}
	case len(ones) > 0 && ones[len(ones)-1].start > twos[0].start:
		p.fail(ones[len(ones)-1].start, "", "an H1 begins another protocol; the text replaces one step")
		return Step{}
	case strings.TrimSpace(p.text.src[:twos[0].start]) != "":
		p.warn(0, "", "the text before the step's heading is dropped")
	}
	s := p.step(twos[0], span{twos[0].end, len(p.text.src)})
	if s.Name = ownName(s); s.Name == "" {
		s.Name = Slug(s.Label)
	}
	return s
}

// bodyOnly parses a step without heading.
func (p *parse) bodyOnly() Step {
	s := Step{Line: 1}
	s.Text = trimBlank(p.takeChallenge(&s, span{0, len(p.text.src)}))
	s.Name = ownName(s)
	return s
}

// openEnd is the problem of a text that, as a step, would absorb the next step or begin
// others. It must contain the given number of headings.
func openEnd(s Step, headings int) string {
	written := parse{text: outlineOf(RenderStep(s) + "\n## after\n")}
	all := written.text.outer()
	if len(all) != headings+1 || all[headings].text != "after" {
		return "the text leaves a code fence or an HTML block open, hides a heading in a list, or has an H1 without text"
	}
	return ""
}

// openLast is openEnd for the last step of a chain: without a challenge after it, an
// open block absorbs nothing.
func openLast(s Step, headings int) string {
	if s.Challenge != nil {
		return openEnd(s, headings)
	}
	written := parse{text: outlineOf(RenderStep(s))}
	if len(written.text.outer()) != headings {
		return "the text hides a heading in a list, or has an H1 without text"
	}
	return ""
}

// outer are the headings that begin a protocol or a step.
func (o outline) outer() []heading {
	return slices.DeleteFunc(slices.Clone(o.headings), func(h heading) bool { return h.level > 2 || h.level == 2 && h.text == "" })
}
