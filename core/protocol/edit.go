package protocol

import (
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ParseStep reads the text that is to replace step i, as the function
// ParseStep does, and makes of it a step of this chain: it keeps the UUID, the
// heading where the text has none, and the form of a document that is one text
// without H2. What RenderStep writes gives an equal step.
//
// The names of a chain depend on each other: call Rename once the step is in
// its place.
func (c Chain) ParseStep(i int, doc []byte) (Step, []Diagnostic) {
	old := c.Steps[i]
	s, found := c.parseStep(i, doc)
	s.UUID = old.UUID
	if s.Label == "" {
		s.Label = headingOf(old.Label)
		s.Text = joinHeading(s.Label, "\n"+s.Text)
	}
	s.Tags = Tags(s)
	return s, found
}

// ParseText is ParseStep for a text that is kept whole: it may begin with the
// step's own H2, and any other heading that would begin a step or a protocol is
// an error.
func (c Chain) ParseText(i int, doc []byte) (Step, []Diagnostic) {
	s, found := c.ParseStep(i, doc)
	src, problem := source(doc)
	if problem != nil || c.isOneText() && !s.headed() {
		return s, found
	}
	p := &parse{outline: outlineOf(betweenMarkers(src))}
	for _, h := range p.headings {
		switch {
		case h.text == "" || h.level > 2:
		case h.level == 1:
			p.fail(h.start, "", "an H1 is the title of a protocol, and this is the text of one step; use ### or deeper here, or mint the whole protocol to change its title")
		case strings.TrimSpace(p.src[:h.start]) != "":
			p.fail(h.start, "", "this heading would begin another step, and this is the text of one; use ### or deeper here, or mint the whole protocol to add a step")
		}
	}
	if p.failed {
		return s, p.found
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
	var p parse
	if f, ok := p.findFrontMatter(src); ok && trimBlank(src) != old.Text {
		if _, broken := readYAML(f.raw); broken == nil {
			return Step{}, []Diagnostic{{
				Severity: driver.SeverityError, Line: f.line - 1, Column: 1,
				Message: "front matter belongs to a protocol, not to a step; mint the whole protocol to change it",
			}}
		}
	}
	if i == len(c.Steps)-1 {
		return parseStep(doc, (*parse).checkLast)
	}
	return ParseStep(doc)
}

// isOneText reports whether the chain is that of a document without H2.
func (c Chain) isOneText() bool {
	return len(c.Steps) == 1 && !c.Steps[0].headed() && c.Steps[0].Challenge == nil
}

// oneText reads the text of a chain that has no H2. It reports false when the
// text gives the step a heading or a challenge, or the chain another title.
func (c Chain) oneText(src string) (Step, bool) {
	p := &parse{outline: outlineOf(src)}
	p.front.title = c.frontTitle()
	all := span{0, len(p.src)}
	if p.excess != "" || len(p.stepHeadings(all)) > 0 {
		return Step{}, false
	}
	text := trimBlank(src)
	if f, ok := p.lastFence(all); ok && looksLikeChallenge(f) && text != c.Steps[0].Text {
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
	var p parse
	p.takeFrontMatter("---\n" + c.FrontMatter + "\n---\n")
	return p.front.title
}

// headingOf is a label as an H2 keeps it.
func headingOf(label string) string {
	label = sanitise(trimClosing(strings.Join(strings.Fields(label), " ")))
	if label == "" {
		return "Step"
	}
	return label
}

// Rename returns the chain with the names its steps have by their challenges
// and headings, after steps were changed or taken out. Its findings are names
// that are given twice.
func (c Chain) Rename() (Chain, []Diagnostic) {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Name = ""
	}
	return c, nameSteps(c.Steps)
}
