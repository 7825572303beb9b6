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
