package protocol

import (
	"strings"
)

// Render writes a chain as the Markdown document that Parse reads back as an equal
// one.
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
		if _, headed := s.ownHeading(); !headed {
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

// Heading is the heading of the step as its author wrote it, with the number that
// its label is without. It is what people read. A step without an H2 has its label.
func (s Step) Heading() string {
	if heading, ok := s.ownHeading(); ok {
		return heading
	}
	return s.Label
}

// Body is the text of the step below its heading.
func (s Step) Body() string {
	body := s.Text
	if _, ok := s.ownHeading(); ok {
		_, body, _ = strings.Cut(s.Text, "\n")
	}
	return strings.Trim(body, "\r\n")
}

// ownHeading is the H2 with which the text begins; false: the step is that of a
// document without H2.
func (s Step) ownHeading() (string, bool) {
	first, _, _ := strings.Cut(s.Text, "\n")
	heading, ok := strings.CutPrefix(first, "## ")
	return heading, ok && heading != "" && sanitise(heading) == s.Label
}
