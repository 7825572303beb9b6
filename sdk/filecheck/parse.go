package filecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/pattern"
)

// None reports whether a `files` value demands nothing.
func None(files json.RawMessage) bool {
	trimmed := bytes.TrimSpace(files)
	return len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null"))
}

// Parse reads a list whose templates are filled. With an error among the
// diagnostics the checks are not to be used. Pointers begin at the list.
func Parse(files json.RawMessage) ([]Check, []driver.Diagnostic) { return parse(files, nil) }

// Lint judges a list in which templates stand still. They may stand in paths,
// in sha256 and in contains; anywhere else a value would be read as a pattern.
func Lint(files json.RawMessage, template *regexp.Regexp) []driver.Diagnostic {
	_, found := parse(files, template)
	return found
}

func parse(files json.RawMessage, template *regexp.Regexp) ([]Check, []driver.Diagnostic) {
	if None(files) {
		return nil, nil
	}
	one, err := fields.DecodeOne(files)
	if err != nil {
		return nil, []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	var entries []json.RawMessage
	if one[0] != '[' || json.Unmarshal(one, &entries) != nil {
		return nil, []driver.Diagnostic{driver.Problem("", "must be a list, not "+fields.TypeOf(one))}
	}
	if len(entries) == 0 || len(entries) > maxEntries {
		return nil, []driver.Diagnostic{driver.Problem("", fmt.Sprintf("must hold from 1 to %d entries, not %d", maxEntries, len(entries)))}
	}
	checks := make([]Check, len(entries))
	var found []driver.Diagnostic
	for i, raw := range entries {
		e := entry{of: fields.Open(raw, fields.Pointer(fmt.Sprint(i))), template: template}
		checks[i] = e.read()
		found = append(found, e.of.Diagnostics()...)
	}
	return checks, found
}

// entry is one entry of a list being read.
type entry struct {
	of       *fields.Object
	template *regexp.Regexp // nil: none stand in it
}

func (e entry) read() Check {
	if len(e.of.Problems()) > 0 {
		return Check{} // no object
	}
	var c Check
	e.names(&c)
	e.presence(&c)
	c.MinSize, c.MaxSize = e.wholeNumber(MinSize, maxSize), e.wholeNumber(MaxSize, maxSize)
	if c.MinSize != nil && c.MaxSize != nil && *c.MinSize > *c.MaxSize {
		e.of.Wrong(MinSize, "is more than max_size")
	}
	c.NewerThanRun, _ = e.of.Bool(NewerThanRun)
	e.content(&c)
	e.counts(&c)
	if c.Absent {
		e.nothingBeside(c)
	}
	e.onlyKnown()
	return c
}

// names reads path and glob, one of which has to be there.
func (e entry) names(c *Check) {
	name, named := e.of.String("path")
	glob, globbed := e.of.String("glob")
	switch {
	case e.of.Has("path") && e.of.Has("glob"):
		e.of.Wrong("glob", "stands beside path: an entry has one of them")
	case !e.of.Has("path") && !e.of.Has("glob"):
		e.of.Wrong("path", "is missing: an entry names one file by path, or several by glob")
	}
	if named {
		c.Path = name
		if why := badPath(e.filled(name)); why != "" {
			e.of.Wrong("path", why)
		}
	}
	if globbed && e.plain("glob", glob) {
		read, why := readPattern(glob)
		if why != "" {
			e.of.Wrong("glob", why)
		}
		c.Glob = read
	}
}

// filled puts a neutral text where templates stand.
func (e entry) filled(text string) string {
	if e.template == nil {
		return text
	}
	return e.template.ReplaceAllString(text, "x")
}

func (e entry) open(text string) bool { return e.template != nil && e.template.MatchString(text) }

// plain refuses templates where a value would be read as a pattern.
func (e entry) plain(key, text string) bool {
	if e.open(text) {
		e.of.Wrong(key, "no template may stand here: its value would be read as a pattern; templates may stand in path, sha256 and contains")
		return false
	}
	return true
}

func (e entry) presence(c *Check) {
	exists, said := e.of.Bool(Exists)
	absent, denied := e.of.Bool(Absent)
	if said && denied && exists == absent {
		e.of.Wrong(Absent, "contradicts exists")
	}
	c.Absent = absent || said && !exists
}

func (e entry) content(c *Check) {
	if digest, said := e.of.String(SHA256); said {
		c.SHA256 = strings.ToLower(digest)
		if !e.open(digest) && !isDigest(c.SHA256) {
			e.of.Wrong(SHA256, "must be 64 hexadecimal digits")
		}
	}
	if text, said := e.of.String(Contains); said {
		c.Contains = text
		if text == "" || len(text) > maxText {
			e.of.Wrong(Contains, fmt.Sprintf("must have from 1 to %d bytes", maxText))
		}
	}
	if text, said := e.of.String(Regex); said && e.plain(Regex, text) {
		c.regex = e.expression(text)
	}
	if raw := e.of.Raw(JSONSchema); e.of.Has(JSONSchema) && e.plain(JSONSchema, string(raw)) {
		e.compile(c, raw)
	}
}

func (e entry) expression(text string) *regexp.Regexp {
	if text == "" {
		e.of.Wrong(Regex, fmt.Sprintf("must have from 1 to %d bytes", pattern.MaxBytes))
		return nil
	}
	compiled, err := pattern.Compile(text)
	if err != nil {
		e.of.Wrong(Regex, err.Error())
		return nil
	}
	return compiled.Regexp
}

func (e entry) compile(c *Check, raw json.RawMessage) {
	if raw[0] != '{' || len(raw) > maxSchema {
		e.of.Wrong(JSONSchema, fmt.Sprintf("must be a JSON Schema, an object of at most %d bytes", maxSchema))
		return
	}
	compiled, patterned, err := compileSchema(context.Background(), raw)
	if err != nil {
		e.of.Wrong(JSONSchema, err.Error())
		return
	}
	if c.schema = compiled; patterned {
		c.patterned = raw
	}
}

func (e entry) counts(c *Check) {
	least, most := e.wholeNumber(MinCount, maxCount), e.wholeNumber(MaxCount, maxCount)
	c.MinCount = 1
	if least != nil {
		c.MinCount = int(*least)
	}
	if most != nil {
		n := int(*most)
		c.MaxCount = &n
		if least == nil {
			c.MinCount = min(c.MinCount, n)
		}
	}
	switch {
	case c.Path != "" && least != nil:
		e.of.Wrong(MinCount, "counts the files of a glob; a path is one file")
	case c.Path != "" && most != nil:
		e.of.Wrong(MaxCount, "counts the files of a glob; a path is one file")
	case c.MaxCount != nil && c.MinCount > *c.MaxCount:
		e.of.Wrong(MinCount, "is more than max_count")
	}
}

// nothingBeside: of a file that is not there nothing else can be demanded.
func (e entry) nothingBeside(c Check) {
	if c.NewerThanRun {
		e.of.Wrong(NewerThanRun, "cannot be true of a file that must not be there")
	}
	for _, key := range []string{MinSize, MaxSize, SHA256, Contains, Regex, JSONSchema, MinCount, MaxCount} {
		if e.of.Has(key) {
			e.of.Wrong(key, "cannot be true of a file that must not be there")
		}
	}
}

// onlyKnown refuses other keys: a misspelt check would check nothing.
func (e entry) onlyKnown() {
	for _, key := range e.of.Unknown() {
		e.of.Wrong(key, "is not known; the keys are path or glob, exists, absent, min_size, max_size, sha256, contains, regex, "+
			"json_schema, newer_than_run, min_count, max_count")
	}
}

// wholeNumber reads a whole number from 0 up to a bound, or returns nil.
func (e entry) wholeNumber(key string, bound float64) *int64 {
	v, found := e.of.Number(key)
	if !found {
		return nil
	}
	if v < 0 || v > bound || v != math.Trunc(v) {
		e.of.Wrong(key, fmt.Sprintf("must be a whole number from 0 to %.0f", bound))
		return nil
	}
	n := int64(v)
	return &n
}

func isDigest(text string) bool {
	return len(text) == digestChars && strings.Trim(text, "0123456789abcdef") == ""
}
