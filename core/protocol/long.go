package protocol

import (
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// LongStep is how many bytes a step may have, with its challenge and the introduction that is shown
// with it, before an author is warned: programs of agents cut replies that are longer.
const LongStep = 6 << 10

// adviseLong warns of a step, by its index, of which agents may read a part only.
func (c Chain) adviseLong(i int) []Diagnostic {
	s := c.Steps[i]
	text, what := s.Text, "the step and its challenge have"
	if i == 0 {
		if text = c.Introduced(s.Text); len(text) > len(s.Text) {
			what = "the step, its challenge and the introduction have"
		}
	}
	size := len(text) + len(s.Challenge)
	if size <= LongStep {
		return nil
	}
	d := s.found(s.textPlace(0), "", fmt.Sprintf("%s %d bytes, and several agent programs cut replies above %d KiB: make several steps of it, or put details into a file that the step names; where a reply is cut, kairos_dump reads the text in parts", what, size, LongStep>>10))
	d.Severity = driver.SeverityWarning
	return []Diagnostic{d}
}
