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
	"regexp"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
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
	// MinSize and MaxSize are in bytes. A bound that is nil does not exist.
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
