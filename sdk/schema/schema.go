// Package schema judges JSON that strangers wrote by a JSON Schema: it validates
// a value with diagnostics that a person can act on, and derives the strict form
// of a schema. It never loads a reference from a file or the network.
//
// The validator costs a process 2 MB and some milliseconds at its start,
// whether it is used or not. What does without it stands in package fields.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/pattern"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// location is the address under which a schema is compiled. Nothing is ever
// fetched from it; it only shows in messages about references.
const location = "urn:kairos:schema"

const (
	// maxDiagnostics bounds what one validation reports.
	maxDiagnostics = 20
	// maxKept is how many findings are put into words, to be sorted.
	maxKept = 1_000
	// maxFinding is the longest finding in bytes.
	maxFinding = 1_000
	// maxNames is how many keys a finding lists.
	maxNames = 10
)

// Memory of a compiled schema beside its text, roughly.
const (
	bytesPerPart = 1_000
	bytesPerStep = 100
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	memory   int // about how many bytes it takes
}

// nothing is a loader that loads nothing.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

// Compile reads a JSON Schema (2020-12 unless its $schema says otherwise).
// Formats are asserted. References must stay inside the document and mean the
// same wherever they are met: $dynamicRef to a $dynamicAnchor is refused. So is a
// schema beyond the limits of Weigh, before anything is compiled.
func Compile(schema json.RawMessage) (*Schema, error) {
	return compiledOf.of(string(schema), func() (*Schema, int, error) {
		var budget pattern.Budget // all patterns of the schema have one
		s, err := CompileWith(schema, func(text string) (Expression, error) { return budget.Compile(text) })
		if err != nil {
			return nil, 0, err
		}
		return s, s.memory, nil
	})
}

// Expression is a pattern of a schema.
type Expression interface {
	MatchString(text string) bool
	String() string // as it was written
}

// CompileWith is Compile with the caller's reading of pattern and
// patternProperties, which may refuse one and may bound the time of matching.
// What it returns is not kept for another call.
func CompileWith(schema json.RawMessage, read func(pattern string) (Expression, error)) (*Schema, error) {
	doc, weight, err := weigh(schema)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(nothing{})
	done := false
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		if done { // a value of format regex, which meter has counted
			return pattern.Compile(text)
		}
		return read(text)
	})
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, readable(err)
	}
	done = true
	if err := survey(compiled); err != nil {
		return nil, err
	}
	if s := circular(compiled); s != nil {
		return nil, fmt.Errorf("not a usable JSON Schema: %s refers to itself for the same value, so that no value can be judged by it", pointerOf(s))
	}
	return &Schema{compiled: compiled, memory: len(schema) + weight.Parts*bytesPerPart + weight.Steps*bytesPerStep}, nil
}

// pointerOf is where a part stands in its document.
func pointerOf(s *jsonschema.Schema) string {
	_, pointer, _ := strings.Cut(s.Location, "#")
	return "#" + pointer
}

// readable shortens the library's error to what the author of a schema needs.
func readable(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var verr *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &verr) {
		diagnostics := explain(verr, nil)
		return fmt.Errorf("not a valid JSON Schema: %s", fields.Text(diagnostics))
	}
	return fmt.Errorf("not a usable JSON Schema: %w", err)
}

// Validate judges a value; no diagnostics means that it is valid. The work is
// counted first, and a value that takes too much is a diagnostic, too.
func (s *Schema) Validate(value json.RawMessage) []driver.Diagnostic {
	v, err := decode(value)
	if err != nil {
		return []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	if !affordable(s.compiled, v) {
		return []driver.Diagnostic{driver.Problem("", fmt.Sprintf(
			"judging it takes more than %d comparisons: too large a value, or a schema with too many alternatives, references or long patterns", maxWork))}
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var verr *jsonschema.ValidationError
	if !errors.As(err, &verr) {
		return []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	return explain(verr, s.compiled)
}

// Validate judges a value against a schema; no diagnostics means that it is
// valid. A broken schema is a diagnostic too, so it never lets a value pass.
func Validate(schema, value json.RawMessage) []driver.Diagnostic {
	s, err := Compile(schema)
	if err != nil {
		return []driver.Diagnostic{driver.Problem("", "the schema: "+err.Error())}
	}
	return s.Validate(value)
}

// explain says what is wrong with a value by a schema, or with the schema itself if it is nil.
// It never quotes a value, which may be a secret.
func explain(verr *jsonschema.ValidationError, by *jsonschema.Schema) []driver.Diagnostic {
	e := explainer{by: by}
	ends := leaves(verr)
	all := make([]driver.Diagnostic, 0, len(ends.kept))
	for _, end := range ends.kept {
		all = append(all, driver.Problem(fields.Pointer(end.InstanceLocation...), plain.Clip(e.words(end), maxFinding)))
	}
	slices.SortStableFunc(all, func(a, b driver.Diagnostic) int { return strings.Compare(a.Pointer, b.Pointer) })
	all = slices.Compact(all)
	if rest := len(all) + ends.count - len(ends.kept) - maxDiagnostics; rest > 0 {
		all = append(all[:min(len(all), maxDiagnostics)], driver.Problem("", fmt.Sprintf("and %d more findings", rest)))
	}
	return all
}

// findings are the errors at the ends of an error tree.
type findings struct {
	kept  []*jsonschema.ValidationError // at most maxKept
	count int
}

// leaves collects the ends of the error tree. Of alternatives it keeps only
// the closest one: all of them at once read as contradictions.
func leaves(verr *jsonschema.ValidationError) findings {
	switch verr.ErrorKind.(type) {
	case *kind.AnyOf:
		return closest(verr)
	case *kind.OneOf:
		if len(verr.Causes) > 0 {
			return closest(verr)
		}
	case *kind.AdditionalProperties:
		return findings{[]*jsonschema.ValidationError{verr}, 1}
	}
	if len(verr.Causes) == 0 {
		return findings{[]*jsonschema.ValidationError{verr}, 1}
	}
	var all findings
	for _, cause := range verr.Causes {
		found := leaves(cause)
		all.count += found.count
		all.kept = append(all.kept, found.kept[:min(len(found.kept), maxKept-len(all.kept))]...)
	}
	return all
}

func closest(verr *jsonschema.ValidationError) findings {
	var best findings
	for _, cause := range verr.Causes {
		if found := leaves(cause); best.count == 0 || found.count < best.count {
			best = found
		}
	}
	return best
}

// explainer words the findings of one validation.
type explainer struct {
	by          *jsonschema.Schema
	suggestions int // made so far: each costs a walk through the schema
}

func (e *explainer) words(verr *jsonschema.ValidationError) string {
	switch k := verr.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		message := "unknown key " + quoted(k.Properties)
		if len(k.Properties) == 1 && e.suggestions < maxDiagnostics {
			e.suggestions++
			message += fields.Suggestion(k.Properties[0], keysAt(e.by, verr.SchemaURL))
		}
		return message
	case *kind.Format:
		if e.by == nil { // a schema keeps no secrets
			return words(k) + ": " + k.Err.Error()
		}
	}
	return words(verr.ErrorKind)
}

// words says what is wrong; the library's own text serves where it is plain.
func words(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "missing " + quoted(k.Missing)
	case *kind.FalseSchema:
		return "not allowed here"
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters, needs at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, may have at most %d", k.Got, k.Want)
	case *kind.Minimum:
		want, _ := k.Want.Float64()
		return fmt.Sprintf("must be at least %v", want)
	case *kind.Maximum:
		want, _ := k.Want.Float64()
		return fmt.Sprintf("must be at most %v", want)
	case *kind.MultipleOf:
		want, _ := k.Want.Float64()
		return fmt.Sprintf("must be a multiple of %v", want)
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %q", k.Want)
	case *kind.Format:
		return fmt.Sprintf("is not a valid %s", k.Want)
	}
	return k.LocalizedString(message.NewPrinter(language.English))
}

// keysAt are the keys that the part of a schema at a location names.
func keysAt(schema *jsonschema.Schema, location string) []string {
	var names []string
	everyPart(schema, func(s *jsonschema.Schema) {
		if s.Location == location {
			names = slices.Collect(maps.Keys(s.Properties))
		}
	})
	return names
}

func quoted(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	more := ""
	if rest := len(sorted) - maxNames; rest > 0 {
		sorted, more = sorted[:maxNames], fmt.Sprintf(" and %d more", rest)
	}
	for i, name := range sorted {
		sorted[i] = fmt.Sprintf("%q", plain.Clip(name, maxFinding))
	}
	return strings.Join(sorted, ", ") + more
}

// decode reads a value as the validator wants it: numbers keep their text.
func decode(raw json.RawMessage) (any, error) {
	one, err := fields.DecodeOne(raw)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(one))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}
