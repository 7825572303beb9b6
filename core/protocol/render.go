package protocol

import (
	"regexp"
	"slices"
	"strings"
)

// Render writes a chain as the Markdown document from which Parse reads an
// equal one.
func Render(c Chain) string {
	front := ""
	if c.FrontMatter != "" {
		front = "---\n" + c.FrontMatter + "\n---\n\n"
	}
	if c.isOneText() {
		return front + RenderStep(c.Steps[0])
	}
	parts := []string{front + "# " + c.Title}
	if c.Description != "" {
		parts = append(parts, c.Description)
	}
	for _, s := range c.Steps {
		if !s.headed() {
			s.Text = joinHeading(s.Label, "\n"+s.Text)
		}
		parts = append(parts, strings.TrimRight(RenderStep(s), "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// RenderStep writes one step: its text and its challenge block.
func RenderStep(s Step) string {
	if len(s.Challenge) == 0 {
		return s.Text + "\n"
	}
	return s.Text + "\n\n```json\n" + challengeText(s) + "\n```\n"
}

func challengeText(s Step) string {
	raw := string(s.Challenge)
	if strings.Contains(raw, "\n") {
		return "{\n  \"challenge\": " + raw + "\n}"
	}
	return `{"challenge": ` + raw + `}`
}

// headed reports whether the text begins with the step's H2. The step of a
// document without H2 has none.
func (s Step) headed() bool {
	first, _, _ := strings.Cut(s.Text, "\n")
	return first == "## "+s.Label
}

var (
	bodyStart = regexp.MustCompile(`(?i)<!--\s*KAIROS:BODY-START\s*-->`)
	bodyEnd   = regexp.MustCompile(`(?i)<!--\s*KAIROS:BODY-END\s*-->`)
)

// ParseStep reads the text that is to replace a step. Between the markers
// KAIROS:BODY-START and KAIROS:BODY-END, if there are any, it reads only what
// they enclose. A lone H1 is taken for the step's heading. Without a heading
// the Label is empty and the Text has none: the caller keeps the label and
// puts "## label" above the text. The Name is the challenge's or the slug of
// the label, and may be empty.
func ParseStep(doc []byte) (Step, []Diagnostic) { return parseStep(doc, (*parse).checkClosed) }

// parseStep reads a step; check refuses what cannot stand where the step will,
// with the number of headings that it has to have.
func parseStep(doc []byte, check func(p *parse, s Step, headings int)) (Step, []Diagnostic) {
	src, problem := source(doc)
	if problem != nil {
		return Step{}, []Diagnostic{*problem}
	}
	src = betweenMarkers(src)
	if strings.TrimSpace(src) == "" {
		_, problem = source(nil)
		return Step{}, []Diagnostic{*problem}
	}
	p := &parse{outline: outlineOf(src)}
	if p.exceeded() {
		return Step{}, p.found
	}
	s := p.onlyStep()
	switch {
	case p.failed:
	case s.Label == "":
		check(p, s, 0)
	default:
		check(p, s, 1)
	}
	return s, p.found
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
	for _, h := range p.headings {
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
	case strings.TrimSpace(p.src[:twos[0].start]) != "":
		p.warn(0, "", "the text before the step's heading is dropped")
	}
	s := p.step(twos[0], span{twos[0].end, len(p.src)})
	if s.Name = ownName(s); s.Name == "" {
		s.Name = Slug(s.Label)
	}
	return s
}

// bodyOnly reads a step without heading.
func (p *parse) bodyOnly() Step {
	s := Step{Line: 1}
	s.Text = trimBlank(p.takeChallenge(&s, span{0, len(p.src)}))
	s.Name = ownName(s)
	return s
}

// checkClosed refuses a text that, written as a step, would swallow the step
// after it or begin others. It has to hold the given number of headings.
func (p *parse) checkClosed(s Step, headings int) {
	written := parse{outline: outlineOf(RenderStep(s) + "\n## after\n")}
	all := written.outer()
	if len(all) != headings+1 || all[headings].text != "after" {
		p.fail(0, s.Label, "the text leaves a code fence or an HTML block open, hides a heading in a list, or has an H1 without text")
	}
}

// checkLast is checkClosed for the last step of a chain: what it leaves open
// without a challenge behind it swallows nothing.
func (p *parse) checkLast(s Step, headings int) {
	if s.Challenge != nil {
		p.checkClosed(s, headings)
		return
	}
	written := parse{outline: outlineOf(RenderStep(s))}
	if len(written.outer()) != headings {
		p.fail(0, s.Label, "the text hides a heading in a list, or has an H1 without text")
	}
}

// outer are the headings that begin a protocol or a step.
func (p *parse) outer() []heading {
	return slices.DeleteFunc(slices.Clone(p.headings), func(h heading) bool { return h.level > 2 || h.level == 2 && h.text == "" })
}
