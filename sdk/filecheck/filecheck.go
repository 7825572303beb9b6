// Package filecheck is what a challenge's `files` list means: it reads and
// judges the list, matches names with its globs, judges a file's content, and
// compares a report of files with what was demanded. It opens no file; the one
// who looks is a driver. All of it is safe for concurrent use.
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
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Names of the checks, which are also the keys of an entry.
const (
	Exists       = "exists"
	Absent       = "absent"
	MinSize      = "min_size"
	MaxSize      = "max_size"
	SHA256       = "sha256"
	Contains     = "contains"
	Regex        = "regex"
	JSONSchema   = "json_schema"
	NewerThanRun = "newer_than_run"
	MinCount     = "min_count"
	MaxCount     = "max_count"
)

// Bounds of a list.
const (
	maxEntries  = 64
	maxText     = 64 << 10  // bytes of contains
	maxRegex    = 4 << 10   // bytes
	maxSchema   = 256 << 10 // bytes
	maxSize     = 1 << 50   // bytes of a file; it keeps the number whole
	maxCount    = 1_000_000
	digestChars = 64
)

// Check is one entry of the list: one file by its path, or all that a glob
// matches, and what has to be true of them.
type Check struct {
	// Path or Glob is set, relative to a root, with slashes.
	Path string
	Glob Pattern
	// Absent: no such file may be there. Nothing else is checked then.
	Absent bool
	// MinSize and MaxSize are in bytes; nil: no bound.
	MinSize, MaxSize *int64
	SHA256           string // lower-case hex; empty: any
	Contains         string // empty: anything
	NewerThanRun     bool   // changed since the run began
	// MinCount and MaxCount bound how many files a glob matches. MaxCount nil:
	// no bound. MinCount is 1 where nothing is said.
	MinCount int
	MaxCount *int

	regex  *regexp.Regexp
	schema *schema.Schema
	// patterned is the text of a schema with patterns. They are matched in the
	// time of a look, so each look compiles its own.
	patterned json.RawMessage
}

// Name is the path or the glob, as it was written.
func (c Check) Name() string {
	if c.Path != "" {
		return c.Path
	}
	return c.Glob.String()
}

// ReadsContent reports whether the check cannot be made without reading the file.
func (c Check) ReadsContent() bool { return c.SHA256 != "" || c.NeedsContent() }

// NeedsContent reports whether Content has to be given the content, and not only
// its digest.
func (c Check) NeedsContent() bool { return c.Contains != "" || c.regex != nil || c.schema != nil }

// Made lists the names of the checks that a file of the entry has passed.
func (c Check) Made() string {
	if c.Absent {
		return Absent
	}
	made := []string{Exists}
	for _, one := range []struct {
		name string
		made bool
	}{
		{MinSize, c.MinSize != nil},
		{MaxSize, c.MaxSize != nil},
		{NewerThanRun, c.NewerThanRun},
		{SHA256, c.SHA256 != ""},
		{Contains, c.Contains != ""},
		{Regex, c.regex != nil},
		{JSONSchema, c.schema != nil},
	} {
		if one.made {
			made = append(made, one.name)
		}
	}
	return strings.Join(made, ", ")
}

// Size names the check that a file of this size fails, with the reason; an
// empty name: none.
func (c Check) Size(n int64) (failed, why string) {
	switch {
	case c.MinSize != nil && n < *c.MinSize:
		return MinSize, fmt.Sprintf("it has %d bytes, at least %d are demanded", n, *c.MinSize)
	case c.MaxSize != nil && n > *c.MaxSize:
		return MaxSize, fmt.Sprintf("it has %d bytes, at most %d are allowed", n, *c.MaxSize)
	}
	return "", ""
}

// Content names the check that this content with this digest (lower-case hex)
// fails, with the reason; an empty name: none. The reason quotes no value of the
// content. When the context is done, nothing matches an expression any more.
func (c Check) Content(ctx context.Context, content []byte, digest string) (failed, why string) {
	switch {
	case c.SHA256 != "" && digest != c.SHA256:
		return SHA256, "it has another SHA-256 than demanded"
	case c.Contains != "" && !bytes.Contains(content, []byte(c.Contains)):
		return Contains, "it does not contain the text that is demanded"
	case c.regex != nil && !matchesIn(ctx, c.regex, content):
		return Regex, orLate(ctx, "nothing in it matches the expression that is demanded")
	case c.schema == nil:
		return "", ""
	}
	found := c.fits(ctx, content)
	if len(found) > 0 || ctx.Err() != nil {
		return JSONSchema, orLate(ctx, "it is not JSON that fits the schema that is demanded"+at(found))
	}
	return "", ""
}

func (c Check) fits(ctx context.Context, content []byte) []driver.Diagnostic {
	judge := c.schema
	if c.patterned != nil {
		var err error
		if judge, _, err = compileSchema(ctx, c.patterned); err != nil {
			return []driver.Diagnostic{driver.Problem("", err.Error())}
		}
	}
	return judge.Validate(content)
}

// orLate is the reason, unless there was no time to find out.
func orLate(ctx context.Context, why string) string {
	if ctx.Err() != nil {
		return "judging its content took too long"
	}
	return why
}

// at says where, without the words of the finding, which may quote the value.
func at(found []driver.Diagnostic) string {
	if len(found) == 0 || found[0].Pointer == "" {
		return ""
	}
	return ": see " + found[0].Pointer
}

// Count names the check that this many matches fail, with the reason; an empty
// name: none.
func (c Check) Count(n int) (failed, why string) {
	switch {
	case c.Absent && n > 0:
		return Absent, fmt.Sprintf("%d files match it, none may", n)
	case c.Absent:
		return "", ""
	case n < c.MinCount:
		return MinCount, fmt.Sprintf("%d files match it, at least %d are demanded", n, c.MinCount)
	case c.MaxCount != nil && n > *c.MaxCount:
		return MaxCount, fmt.Sprintf("%d files match it, at most %d are allowed", n, *c.MaxCount)
	}
	return "", ""
}

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
		e := entry{Object: fields.Open(raw, fields.Pointer(fmt.Sprint(i))), template: template}
		checks[i] = e.read()
		found = append(found, e.Diagnostics()...)
	}
	return checks, found
}

// entry is one entry of a list being read.
type entry struct {
	*fields.Object
	template *regexp.Regexp // nil: none stand in it
}

func (e entry) read() Check {
	if len(e.Problems()) > 0 {
		return Check{} // no object
	}
	var c Check
	e.names(&c)
	e.presence(&c)
	c.MinSize, c.MaxSize = e.whole(MinSize, maxSize), e.whole(MaxSize, maxSize)
	if c.MinSize != nil && c.MaxSize != nil && *c.MinSize > *c.MaxSize {
		e.Wrong(MinSize, "is more than max_size")
	}
	c.NewerThanRun, _ = e.Bool(NewerThanRun)
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
	name, named := e.String("path")
	glob, globbed := e.String("glob")
	switch {
	case e.Has("path") && e.Has("glob"):
		e.Wrong("glob", "stands beside path: an entry has one of them")
	case !e.Has("path") && !e.Has("glob"):
		e.Wrong("path", "is missing: an entry names one file by path, or several by glob")
	}
	if named {
		c.Path = name
		if why := badPath(e.filled(name)); why != "" {
			e.Wrong("path", why)
		}
	}
	if globbed && e.plain("glob", glob) {
		pattern, why := readPattern(glob)
		if why != "" {
			e.Wrong("glob", why)
		}
		c.Glob = pattern
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
		e.Wrong(key, "no template may stand here: its value would be read as a pattern; templates may stand in path, sha256 and contains")
		return false
	}
	return true
}

func (e entry) presence(c *Check) {
	exists, said := e.Bool(Exists)
	absent, denied := e.Bool(Absent)
	if said && denied && exists == absent {
		e.Wrong(Absent, "contradicts exists")
	}
	c.Absent = absent || said && !exists
}

func (e entry) content(c *Check) {
	if digest, said := e.String(SHA256); said {
		c.SHA256 = strings.ToLower(digest)
		if !e.open(digest) && !isDigest(c.SHA256) {
			e.Wrong(SHA256, "must be 64 hexadecimal digits")
		}
	}
	if text, said := e.String(Contains); said {
		c.Contains = text
		if text == "" || len(text) > maxText {
			e.Wrong(Contains, fmt.Sprintf("must have from 1 to %d bytes", maxText))
		}
	}
	if text, said := e.String(Regex); said && e.plain(Regex, text) {
		c.regex = e.expression(text)
	}
	if raw := e.Raw(JSONSchema); e.Has(JSONSchema) && e.plain(JSONSchema, string(raw)) {
		e.compile(c, raw)
	}
}

func (e entry) expression(text string) *regexp.Regexp {
	if text == "" || len(text) > maxRegex {
		e.Wrong(Regex, fmt.Sprintf("must have from 1 to %d bytes", maxRegex))
		return nil
	}
	compiled, _, err := compileExpression(text, maxProgram)
	if err != nil {
		e.Wrong(Regex, err.Error())
	}
	return compiled
}

func (e entry) compile(c *Check, raw json.RawMessage) {
	if raw[0] != '{' || len(raw) > maxSchema {
		e.Wrong(JSONSchema, fmt.Sprintf("must be a JSON Schema, an object of at most %d bytes", maxSchema))
		return
	}
	compiled, patterned, err := compileSchema(context.Background(), raw)
	if err != nil {
		e.Wrong(JSONSchema, err.Error())
		return
	}
	if c.schema = compiled; patterned {
		c.patterned = raw
	}
}

func (e entry) counts(c *Check) {
	least, most := e.whole(MinCount, maxCount), e.whole(MaxCount, maxCount)
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
		e.Wrong(MinCount, "counts the files of a glob; a path is one file")
	case c.Path != "" && most != nil:
		e.Wrong(MaxCount, "counts the files of a glob; a path is one file")
	case c.MaxCount != nil && c.MinCount > *c.MaxCount:
		e.Wrong(MinCount, "is more than max_count")
	}
}

// nothingBeside: of a file that is not there nothing else can be demanded.
func (e entry) nothingBeside(c Check) {
	if c.NewerThanRun {
		e.Wrong(NewerThanRun, "cannot be true of a file that must not be there")
	}
	for _, key := range []string{MinSize, MaxSize, SHA256, Contains, Regex, JSONSchema, MinCount, MaxCount} {
		if e.Has(key) {
			e.Wrong(key, "cannot be true of a file that must not be there")
		}
	}
}

// onlyKnown refuses other keys: a misspelt check would check nothing.
func (e entry) onlyKnown() {
	for _, key := range e.Unknown() {
		e.Wrong(key, "is not known; the keys are path or glob, exists, absent, min_size, max_size, sha256, contains, regex, "+
			"json_schema, newer_than_run, min_count, max_count")
	}
}

// whole reads a whole number from 0 up to a bound; nil: there is none.
func (e entry) whole(key string, bound float64) *int64 {
	v, found := e.Number(key)
	if !found {
		return nil
	}
	if v < 0 || v > bound || v != math.Trunc(v) {
		e.Wrong(key, fmt.Sprintf("must be a whole number from 0 to %.0f", bound))
		return nil
	}
	n := int64(v)
	return &n
}

func isDigest(text string) bool {
	return len(text) == digestChars && strings.Trim(text, "0123456789abcdef") == ""
}
