package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt/untrusted"
)

// A path is dotted names; digits index lists. Anything else in braces is not a
// template, so that commands may use braces, too.
var templatePattern = regexp.MustCompile(`\{\{\s*(?:(input)|(steps)\.(` + nameForm + `))((?:\.[\p{L}\p{M}\p{Nd}_-]+)+)\s*\}\}`)

// Sources of a Reference.
const (
	FromInput = "input"
	FromSteps = "steps"
)

// Reference is one template in a challenge.
type Reference struct {
	Pointer string   // of its string in the challenge
	Source  string   // FromInput or FromSteps
	Step    string   // the step's name, for FromSteps
	Path    []string // at least one element
	Text    string   // as written, braces included
}

// Scope holds the values for templates.
type Scope struct {
	Input json.RawMessage
	// Steps holds the outputs of earlier steps by name.
	Steps map[string]json.RawMessage
}

// output is the output of the step that the name means.
func (s Scope) output(name string) json.RawMessage {
	value, ok := s.Steps[name]
	if ok {
		return value
	}
	same := sameName(name)
	for other, value := range s.Steps {
		if sameName(other) == same { // names of a protocol differ in this form, too
			return value
		}
	}
	return nil
}

// Values returns the values of templates, nil for those without a value.
func (s Scope) Values(refs []Reference) []json.RawMessage {
	f := filler{scope: s, nodes: make(map[string]node)}
	out := make([]json.RawMessage, len(refs))
	for i, r := range refs {
		if value, ok := f.lookup(r); ok {
			out[i] = value
		}
	}
	return out
}

// References lists the templates of a challenge in the order of the text. It is
// empty for invalid JSON.
func References(challenge json.RawMessage) []Reference {
	var out []Reference
	eachTemplate(challenge, func(r Reference, _ int, _ string, _ int) { out = append(out, r) })
	return out
}

// eachTemplate visits the templates of a challenge: at is the offset of the
// template, in its offset in its string.
func eachTemplate(challenge json.RawMessage, visit func(r Reference, at int, value string, in int)) {
	_ = walkJSON(challenge, jsonWalker{onString: func(pointer string, start, _ int, value string) {
		found := templatesIn(value, -1)
		if found == nil {
			return
		}
		plain := unescaped(challenge[start+1:], value)
		for _, m := range found {
			at := start
			if m[0] <= plain {
				at += 1 + m[0]
			}
			visit(reference(pointer, groups(value, m)), at, value, m[0])
		}
	}})
}

// unescaped is up to where a string is written as it is: after an escape sequence
// the offsets of text and value differ.
func unescaped(written []byte, value string) int {
	n := 0
	for n < min(len(written), len(value)) && written[n] == value[n] {
		n++
	}
	return n
}

// groups are the texts of a match.
func groups(s string, m []int) []string {
	out := make([]string, len(m)/2)
	for i := range out {
		if m[2*i] >= 0 {
			out[i] = s[m[2*i]:m[2*i+1]]
		}
	}
	return out
}

func reference(pointer string, m []string) Reference {
	return Reference{
		Pointer: pointer, Source: m[1] + m[2], Step: norm.NFC.String(m[3]), Path: strings.Split(m[4][1:], "."), Text: m[0],
	}
}

// MaxValues is how many bytes values may add to a challenge. Together with the
// largest challenge of a document it still fits into a message to a driver.
const MaxValues = 4 << 20

// ErrTooLarge reports that the values make a challenge too large.
var ErrTooLarge = fmt.Errorf("the values in it make it more than %d bytes longer", MaxValues)

// Fill replaces the templates in the strings of a challenge by values; keys and
// everything else stay as they are. The declared templates say how values are
// escaped below a pointer: the longest one counts, and without one the value is
// inserted as text. References without a value are returned and nothing is filled.
// A value that is not safe at its place is an error, and so are values of more
// than MaxValues bytes: ErrTooLarge.
func Fill(challenge json.RawMessage, templates []driver.Template, s Scope) (json.RawMessage, []Reference, error) {
	filled, missing, err := fill(challenge, templates, s)
	if err != nil || len(missing) > 0 {
		return nil, missing, err
	}
	return filled, nil, nil
}

// FillKnown is Fill for a step that is not open yet: a string with a reference that
// has no value stays as it is.
func FillKnown(challenge json.RawMessage, templates []driver.Template, s Scope) (json.RawMessage, error) {
	filled, _, err := fill(challenge, templates, s)
	return filled, err
}

// fill fills the strings whose references all have values, and returns the others.
func fill(challenge json.RawMessage, templates []driver.Template, s Scope) (json.RawMessage, []Reference, error) {
	f := filler{scope: s, templates: templates, nodes: map[string]node{}}
	if len(challenge) == 0 {
		return challenge, nil, nil
	}
	err := walkJSON(challenge, jsonWalker{onString: func(pointer string, start, end int, value string) {
		if text := f.fill(pointer, value); text != nil {
			f.out.Write(challenge[f.done:start])
			f.out.Write(text)
			f.done = end
			f.added += len(text) - (end - start)
			f.keep(nil, f.tooLarge(0))
		}
	}})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("fill challenge: %w", err)
	case f.err != nil:
		return nil, nil, f.err
	}
	f.out.Write(challenge[f.done:])
	return f.out.Bytes(), f.missing, nil
}

// filler is one run of Fill.
type filler struct {
	scope     Scope
	templates []driver.Template
	nodes     map[string]node // decoded values, by path
	out       bytes.Buffer
	done      int // bytes of the challenge that are written
	added     int // bytes, by values
	missing   []Reference
	err       error
}

// fill returns the JSON that replaces a string, or nil if nothing changes.
func (f *filler) fill(pointer, value string) []byte {
	at := templatesIn(value, -1)
	if at == nil || f.err != nil {
		return nil
	}
	values, ok := f.values(pointer, value)
	if !ok {
		return nil
	}
	escaping := escapingAt(f.templates, pointer)
	if escaping == driver.EscapeJSON && len(at) == 1 && at[0][1]-at[0][0] == len(strings.TrimSpace(value)) {
		return f.keep(compact(values[0]))
	}
	var b strings.Builder
	var command shellReader
	last := 0
	for i, m := range at {
		b.WriteString(value[last:m[0]])
		if inPrompt(pointer) {
			r := reference(pointer, groups(value, m))
			b.WriteString(f.keepString(untrusted.Value(strings.Trim(r.Text, "{ }"), values[i])))
		} else {
			b.WriteString(f.keepString(escape(values[i], escaping, &command, value[:m[0]], value[m[1]:])))
		}
		last = m[1]
		if f.keep(nil, f.tooLarge(b.Len()-last)); f.err != nil {
			return nil
		}
	}
	b.WriteString(value[last:])
	return f.keep(quote(b.String()))
}

// tooLarge reports whether this many more bytes exceed the limit.
func (f *filler) tooLarge(more int) error {
	if f.added+more > MaxValues {
		return ErrTooLarge
	}
	return nil
}

func (f *filler) keep(b []byte, err error) []byte {
	f.err = errors.Join(f.err, err)
	return b
}

func (f *filler) keepString(s string, err error) string {
	f.err = errors.Join(f.err, err)
	return s
}

// values looks up all templates of a string; false: one has no value.
func (f *filler) values(pointer, value string) ([]json.RawMessage, bool) {
	var out []json.RawMessage
	complete := true
	for _, m := range templatesIn(value, -1) {
		r := reference(pointer, groups(value, m))
		v, ok := f.lookup(r)
		if !ok {
			f.missing = append(f.missing, r)
			complete = false
		}
		out = append(out, v)
	}
	return out, complete
}

func (f *filler) lookup(r Reference) (json.RawMessage, bool) {
	value, key := f.scope.Input, r.Source
	if r.Source == FromSteps {
		value, key = f.scope.output(r.Step), r.Source+"."+r.Step
	}
	for _, name := range r.Path {
		n, ok := f.nodes[key]
		if !ok {
			n = nodeOf(value)
			f.nodes[key] = n
		}
		if value, ok = n.child(name); !ok {
			return nil, false
		}
		key += "." + name
	}
	return value, true
}

// node is an object or a list with undecoded elements.
type node struct {
	object map[string]json.RawMessage
	list   []json.RawMessage
}

// nodeOf decodes an object or a list; anything else is empty.
func nodeOf(raw json.RawMessage) node {
	var n node
	if json.Unmarshal(raw, &n.object) != nil {
		_ = json.Unmarshal(raw, &n.list)
	}
	return n
}

func (n node) child(name string) (json.RawMessage, bool) {
	if v, ok := n.object[name]; ok {
		return v, true
	}
	if composed := norm.NFC.String(name); n.object != nil && !isASCII(name) {
		for key, v := range n.object {
			if norm.NFC.String(key) == composed {
				return v, true
			}
		}
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(n.list) {
		return nil, false
	}
	return n.list[i], true
}

// inPrompt reports whether a model reads the string at the pointer. Values in it
// are labelled as data, because their author may have written instructions.
func inPrompt(pointer string) bool {
	return strings.HasPrefix(pointer, "/sampling/") || strings.HasPrefix(pointer, "/judge/")
}

func escapingAt(templates []driver.Template, pointer string) driver.Escaping {
	best, found := driver.EscapeText, -1
	for _, t := range templates {
		prefix := strings.TrimSuffix(t.Pointer, "/")
		if len(prefix) > found && (pointer == prefix || strings.HasPrefix(pointer, prefix+"/")) {
			best, found = t.Escaping, len(prefix)
		}
	}
	return best
}

// escape escapes a value for its place between the texts before and after it.
// command has read the same string up to an earlier template.
func escape(v json.RawMessage, how driver.Escaping, command *shellReader, before, after string) (string, error) {
	if how == driver.EscapeQuote {
		return quoted(v, before, after)
	}
	text, err := asText(v)
	if err != nil {
		return "", err
	}
	switch how {
	case driver.EscapeText, driver.EscapeJSON:
		return text, nil
	case driver.EscapeShell:
		return shellWord(text, command.placeAfter(before))
	}
	return "", fmt.Errorf("unknown escaping %q", how)
}

// quoted is a value in a sentence for people: on one line, with an end that the
// value cannot fake. Existing quotation marks are used.
func quoted(v json.RawMessage, before, after string) (string, error) {
	b, err := compact(v)
	if err != nil {
		return "", err
	}
	text := string(plain.JSON(b))
	inside, isText := strings.CutPrefix(text, `"`)
	if isText && strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`) {
		return strings.TrimSuffix(inside, `"`), nil
	}
	return text, nil
}

// asText is a string as it is and anything else as compact JSON.
func asText(v json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(v, &s) == nil && string(v) != "null" {
		return s, nil
	}
	b, err := compact(v)
	return string(b), err
}

func compact(v json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return nil, fmt.Errorf("a value is not JSON: %w", err)
	}
	return b.Bytes(), nil
}

// quote is a string as JSON, without the escapes that only HTML needs.
func quote(s string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
