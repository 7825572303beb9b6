package protocol

import (
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// Advise warns an author of what a protocol does not do although it reads as if it did.
// Nothing of it keeps a protocol from being stored. A step with an error of lint among
// the findings gets no advice: its challenge may be what is wrong.
func Advise(c Chain, findings []Diagnostic) []Diagnostic {
	failed := map[string]bool{}
	for _, d := range findings {
		failed[d.Step] = failed[d.Step] || d.Severity == driver.SeverityError || d.Tolerated
	}
	found := CheckIntroduction(c)
	for i, s := range c.Steps {
		if !failed[s.Label] && len(found) < maxFindings {
			found = append(append(found, s.advise(c.isOneText())...), c.adviseLong(i)...)
		}
	}
	return found
}

func (s Step) advise(oneText bool) []Diagnostic {
	var found []Diagnostic
	warn := func(at Place, pointer, message string) {
		d := s.found(at, pointer, message)
		d.Severity = driver.SeverityWarning
		found = append(found, d)
	}
	switch {
	case oneText:
		warn(s.textPlace(0), "", "the document has no H2, so it is one step without a challenge: nothing proves that it was done; begin each step with an H2 and end it with a challenge")
	case s.Challenge == nil:
		warn(s.textPlace(0), "", "the step has no challenge: nothing proves that it was done")
	}
	if n := s.deeperSteps(); n > 1 {
		warn(s.textPlace(0), "", fmt.Sprintf("%d numbered headings below it are not H2, so they are text of this one step; write ## to make them steps", n))
	}
	if common, err := CommonOf(s.Challenge); err == nil && !filecheck.None(common.Files) && !common.FilesRequired {
		warn(s.Position("/files"), "/files", `KAIROS checks these files only where the client has roots; elsewhere the agent reports them. With "files_required": true the step does not pass then`)
	}
	return found
}

// deeperSteps counts the numbered headings of the step's text below H2.
func (s Step) deeperSteps() int {
	n := 0
	for _, h := range outlineOf(s.Text).headings {
		if h.level > 2 && (numberOf(h.text) >= 0 || numberings[0].MatchString(h.text)) {
			n++
		}
	}
	return n
}
