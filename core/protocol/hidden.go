package protocol

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// CheckHidden warns of characters in a chain that a reader cannot see or that change how
// the text around them is drawn, once a text: an author rarely means them. Readers
// of the protocol are shown their codes.
func CheckHidden(c Chain) []Diagnostic {
	var found []Diagnostic
	warn := func(s Step, at Place, pointer, where, text string) {
		codes := hiddenIn(text)
		if len(codes) == 0 || len(found) >= maxFindings {
			return
		}
		d := s.found(at, pointer, fmt.Sprintf("%s has hidden characters (%s): readers are shown their codes; remove them unless they are meant", where, strings.Join(codes, ", ")))
		d.Severity = driver.SeverityWarning
		found = append(found, d)
	}
	top := Place{1, 1}
	warn(Step{}, top, "", "the title", c.Title)
	warn(Step{}, top, "", "the title of the front matter", c.AltTitle)
	warn(Step{}, top, "", "the description of the front matter", c.Summary)
	warn(Step{}, top, "", "the description", c.Description)
	for _, t := range c.Triggers {
		warn(Step{}, top, "", "a trigger", t)
	}
	for _, t := range c.Tags {
		warn(Step{}, top, "", "a tag", t)
	}
	_ = walkJSON(c.Inputs, jsonWalker{onString: func(pointer string, _, _ int, value string) {
		warn(Step{}, top, "/inputs"+pointer, "the declaration of inputs", value)
	}})
	for _, s := range c.Steps {
		if at := plain.Marked(s.Text); at >= 0 { // the text begins with the label
			warn(s, s.textPlace(at), "", "the text of the step", s.Text)
		} else {
			warn(s, s.textPlace(0), "", "the label of the step", s.Label)
		}
		_ = walkJSON(s.Challenge, jsonWalker{onString: func(pointer string, start, _ int, value string) {
			warn(s, s.placeAt(start), pointer, "the value", value)
		}})
	}
	return found
}

// maxCodes is how many hidden characters of a text a warning names.
const maxCodes = 5

// hiddenIn are the codes of the hidden characters of a text, each once.
func hiddenIn(text string) (codes []string) {
	var seen []rune
	for _, r := range plain.Marks(text) {
		if slices.Contains(seen, r) {
			continue
		}
		if seen = append(seen, r); len(seen) > maxCodes {
			return append(codes, "...")
		}
		codes = append(codes, fmt.Sprintf("U+%04X", r))
	}
	return codes
}
