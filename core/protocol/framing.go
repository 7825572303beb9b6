package protocol

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The headings that framed the steps of a protocol on the server before this one. The
// first are above what people say when they need the protocol, the last above what
// holds for all of it. Neither is a step.
var (
	openings = []string{"Natural Language Triggers", "Activation Patterns"}
	closings = []string{"Completion Rule", "Reward Signal"}
)

// frames reports whether the step is one of the framing sections: it has such a
// heading, no challenge, and nothing that would change its meaning in a description.
func (s Step) frames(headings []string) bool {
	if s.Challenge != nil || !slices.ContainsFunc(headings, func(h string) bool { return strings.EqualFold(h, s.Label) }) {
		return false
	}
	o := outlineOf(s.framed() + "\n\n## after\n")
	if outer := o.outer(); o.excess != "" || len(outer) != 1 || outer[0].text != "after" {
		return false // it leaves a block open
	}
	return !slices.ContainsFunc(o.fences, func(f fence) bool { return f.holdsInputs() || f.schemaKey() != "" || lookOf(f).meant() })
}

// framed is the section as a part of a description.
func (s Step) framed() string {
	return strings.TrimRight("### "+s.Label+"\n\n"+trimBlank(s.Body()), " \t\r\n")
}

// framing reports a step that, at its place, would be read as a framing section.
func (c Chain) framing() []Diagnostic {
	if len(c.Steps) < 2 {
		return nil
	}
	first, last := c.Steps[0], c.Steps[len(c.Steps)-1]
	switch {
	case first.frames(openings):
		return []Diagnostic{first.problem("", fmt.Sprintf("a first step %q is read as the triggers of the protocol; give it another heading", first.Label))}
	case last.frames(closings):
		return []Diagnostic{last.problem("", fmt.Sprintf("a last step %q is read as a part of the description; give it another heading", last.Label))}
	}
	return nil
}

// frame takes the framing sections for what they are.
func (p *parse) frame(c *Chain) {
	var about []string
	for len(c.Steps) > 1 && c.Steps[0].frames(openings) {
		s := c.Steps[0]
		c.Steps = c.Steps[1:]
		triggers, all := phrases(s.Body())
		if c.Triggers != nil || !p.front.takes(triggers) {
			triggers, all = nil, false
		}
		if c.Triggers = append(c.Triggers, triggers...); !all {
			about = append(about, s.framed())
		}
		p.found.warnAt(Place{s.Line, 1}, "", fmt.Sprintf("%q is read as the triggers of the protocol, not as a step; list them in the front matter: triggers: [%s]", s.Label, quotedList(triggers)))
	}
	var rules []string
	for len(c.Steps) > 1 && c.Steps[len(c.Steps)-1].frames(closings) {
		s := c.Steps[len(c.Steps)-1]
		c.Steps = c.Steps[:len(c.Steps)-1]
		rules = append(rules, s.framed())
		p.found.warnAt(Place{s.Line, 1}, "", fmt.Sprintf("%q is read as a part of the description, not as a step; write it above the first step", s.Label))
	}
	slices.Reverse(rules)
	if about = append(about, rules...); len(about) == 0 {
		return
	}
	if c.Description != "" {
		about = slices.Insert(about, 0, c.Description)
	}
	if c.Description = strings.Join(about, "\n\n"); !p.weight.text("the description", len(c.Description)) {
		p.fail(0, "", p.weight.excess)
	}
}

var (
	listMarker  = regexp.MustCompile(`^(?:[-*+]|\d{1,9}[.)])[ \t]+`)
	inQuotation = regexp.MustCompile("[\"\u201c\u201e]([^\"\u201c\u201d\u201e]+)[\"\u201c\u201d]")
)

// phrases are the triggers in the text of a section: what a line quotes, else the line.
// all reports that nothing of the text is left out.
func phrases(body string) (found []string, all bool) {
	all = true
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		texts := []string{strings.TrimSpace(listMarker.ReplaceAllString(line, ""))}
		if quotations := inQuotation.FindAllStringSubmatch(line, -1); quotations != nil {
			all = all && len(quotations) == 1 && quotations[0][0] == texts[0]
			texts = nil
			for _, q := range quotations {
				texts = append(texts, q[1])
			}
		}
		for _, text := range texts {
			text = strings.Join(strings.Fields(text), " ")
			if !isPhrase(text) || len(found) == MaxTriggers {
				all = false
				continue
			}
			found = appendNew(found, text)
		}
	}
	return found, all
}

func isPhrase(text string) bool {
	return !plain.Empty(text) && utf8.RuneCountInString(text) <= maxWord && !strings.HasSuffix(text, ":") &&
		!strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") && !strings.HasPrefix(text, "#") && !strings.ContainsFunc(text, unicode.IsControl)
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = strconv.Quote(t)
	}
	return strings.Join(quoted, ", ")
}

// withTriggers is the text of the front matter with triggers added.
func (f frontMatter) withTriggers(triggers []string) string {
	var b strings.Builder
	if f.raw != "" {
		b.WriteString(f.raw + "\n")
	}
	b.WriteString("triggers:")
	for _, t := range triggers {
		quoted, err := quote(t)
		if err != nil {
			quoted = []byte(`""`) // a string can always be quoted
		}
		b.WriteString("\n  - " + string(quoted))
	}
	return b.String()
}

// takes reports whether triggers can be added to the front matter.
func (f frontMatter) takes(triggers []string) bool {
	if len(triggers) == 0 {
		return false
	}
	raw := f.withTriggers(triggers)
	with, _, found := takeFrontMatter("---\n" + raw + "\n---\n")
	return !found.failed && with.raw == raw && slices.Equal(with.triggers, triggers)
}
