package protocol

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// MaxIntroduction is how many bytes of an introduction are shown with the first
// step of a run.
const MaxIntroduction = 8 << 10

// Introduction is what the protocol says between its title and its first step,
// without the declaration of inputs and at most MaxIntroduction bytes long.
func (c Chain) Introduction() string {
	text, whole := c.introduction()
	if !whole {
		text += "\n\n[…]"
	}
	return text
}

func (c Chain) introduction() (text string, whole bool) {
	text = c.Description
	if len(c.Inputs) > 0 {
		o := outlineOf(text)
		for _, f := range o.fences {
			if f.objectWith("inputs") {
				text = trimBlank(o.src[:f.start]) + "\n\n" + trimBlank(o.src[f.end:])
				break
			}
		}
	}
	text = strings.TrimSpace(text)
	if len(text) <= MaxIntroduction {
		return text, true
	}
	text = beginning(text, MaxIntroduction)
	return text[:max(strings.LastIndexByte(text, '\n'), 0)], false
}

// Introduced returns the text of the first step with the introduction below its
// heading: a warning that stands there must be read before the step is done.
func (c Chain) Introduced(text string) string {
	introduction := c.Introduction()
	if introduction == "" {
		return text
	}
	heading, body := "", text
	if strings.HasPrefix(text, "## ") {
		heading, body, _ = strings.Cut(text, "\n")
		heading += "\n\n"
	}
	var quoted strings.Builder
	for line := range strings.Lines("Before the first step, the protocol says:\n\n" + introduction) {
		quoted.WriteString(strings.TrimRight("> "+line, " \r\n") + "\n")
	}
	return strings.TrimRight(heading+quoted.String()+"\n"+strings.TrimLeft(body, "\n"), "\n")
}

// CheckIntroduction warns of an introduction that is too long to be shown whole.
func CheckIntroduction(c Chain) []Diagnostic {
	if _, whole := c.introduction(); whole {
		return nil
	}
	return []Diagnostic{{Severity: driver.SeverityWarning, Line: 1, Column: 1, Message: fmt.Sprintf(
		"the introduction has %d bytes; only its first %d KiB are shown, with the first step of a run: put what a step needs into the step", len(c.Description), MaxIntroduction>>10)}}
}
