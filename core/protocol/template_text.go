package protocol

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt/untrusted"
)

const (
	// maxTextValue is how many bytes of a value are put into the text of a step.
	maxTextValue = 8 << 10
	// maxTextValues is how many bytes all values of a text may have together.
	maxTextValues = 1 << 20
)

// FillText replaces the references in the text of a step that the chain declares,
// to an input or to the result of an earlier step, by values. A value is labelled
// as data, on one line. Everything else is kept: other braces, other references,
// references without a value, and those that would make the text too large.
func (c Chain) FillText(step int, s Scope) string {
	text := c.Steps[step].Text
	f := filler{scope: s, nodes: map[string]node{}}
	var b strings.Builder
	last := 0
	d := c.declared()
	c.eachInText(step, func(r Reference, at int) {
		value, ok := f.lookup(r)
		if d.lacks(r, step) != "" || !ok || f.added > maxTextValues {
			return
		}
		shown, err := textValue(r, value)
		if err != nil {
			return // a step does not wait for values in its text
		}
		f.added += len(shown)
		b.WriteString(text[last:at])
		b.WriteString(shown)
		last = at + len(r.Text)
	})
	b.WriteString(text[last:])
	return b.String()
}

func textValue(r Reference, value json.RawMessage) (string, error) {
	if len(value) > maxTextValue {
		text, err := asText(value)
		if err != nil {
			return "", err
		}
		if value, err = quote(strings.ToValidUTF8(text[:min(len(text), maxTextValue)], "") + "…"); err != nil {
			return "", err
		}
	}
	shown, err := untrusted.Value(strings.Trim(r.Text, "{ }"), value)
	return plain.Line(shown), err
}

// TextReferences lists the references in the text of a step that FillText fills.
func (c Chain) TextReferences(step int) []Reference {
	if !strings.Contains(c.Steps[step].Text, "{{") {
		return nil
	}
	var out []Reference
	d := c.declared()
	c.eachInText(step, func(r Reference, _ int) {
		if d.lacks(r, step) == "" {
			out = append(out, r)
		}
	})
	return out
}

// eachInText visits text in the form of a reference.
func (c Chain) eachInText(step int, visit func(r Reference, at int)) {
	text := c.Steps[step].Text
	if !strings.Contains(text, "{{") {
		return
	}
	for _, m := range templatesIn(text, -1) {
		visit(reference("", groups(text, m)), m[0])
	}
}

// declared holds the valid targets of references in a chain.
type declared struct {
	chain    Chain
	position map[string]int  // of the steps, by sameName
	inputs   map[string]bool // nil: any input may be given
	// schemas are those that references started at so far, decoded.
	schemas map[string]map[string]any
}

func (c Chain) declared() declared {
	d := declared{chain: c, position: make(map[string]int, len(c.Steps)), inputs: declaredInputs(c.Inputs), schemas: map[string]map[string]any{}}
	for i, s := range c.Steps {
		d.position[sameName(s.Name)] = i
	}
	return d
}

// lacks says why a reference in the text of a step is not one of the declared
// ones; empty: it is.
func (d declared) lacks(r Reference, step int) string {
	if r.Source == FromInput && d.inputs == nil {
		return "the protocol declares no inputs"
	}
	if why := r.impossible(step, d.position, d.inputs); why != "" {
		return why
	}
	if why, sure := d.leadsNowhere(r); sure || why != "" && d.chain.declaredByDriver(r, d.position) {
		return d.chain.describer(r, d.position) + why
	}
	return ""
}

// checkText warns, at most this often, of text that looks like a template but is
// not filled. Texts may be about anything, so it is never an error.
func (d declared) checkText(step, most int) []Diagnostic {
	s := d.chain.Steps[step]
	var found []Diagnostic
	warn := func(at int, message string) {
		if len(found) >= most {
			return
		}
		warning := s.found(s.textPlace(at), "", message)
		warning.Severity = driver.SeverityWarning
		found = append(found, warning)
	}
	d.chain.eachInText(step, func(r Reference, at int) {
		if why := d.lacks(r, step); why != "" {
			warn(at, r.Text+" stays as it is in the text of the step: "+why)
		}
	})
	d.eachNear(s.Text, false, func(message string, at int) { warn(at, message) })
	slices.SortStableFunc(found, func(a, b Diagnostic) int { return a.Line - b.Line })
	return found
}

// textPlace is the place in the document of an offset of the text.
func (s Step) textPlace(offset int) Place {
	before := s.Text[:offset]
	line := strings.Count(before, "\n")
	return Place{max(s.Line, 1) + line, columns(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
}
