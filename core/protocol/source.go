package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

var (
	lineEnds = regexp.MustCompile(`\r+\n`)
	// Concatenated files have byte order marks inside, too; before a # they would hide a heading.
	byteOrderMarks = regexp.MustCompile(`(?m)^\x{feff}+`)
)

// source is the normalised document: decoded, without byte order marks, with \n at
// the line ends.
func source(doc []byte) (string, *Diagnostic) {
	bad := func(format string, args ...any) (string, *Diagnostic) {
		return "", &Diagnostic{Severity: driver.SeverityError, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	}
	if len(doc) > MaxDocument {
		return bad("the document has %d bytes; at most %d are allowed", len(doc), MaxDocument)
	}
	if i := invalidUTF8(doc); i >= 0 {
		_, problem := bad("the document is not valid UTF-8: the byte here is 0x%02x", doc[i])
		problem.Line, problem.Column = lineAndColumn(string(doc[:i]))
		return "", problem
	}
	if lines := bytes.Count(doc, []byte{'\n'}); lines > maxLines {
		return bad("%s%s", tooManyLines(lines), splitIt)
	}
	s := unwrap(doc)
	if i := strings.IndexByte(s, 0); i >= 0 {
		_, problem := bad("the document contains a NUL character")
		problem.Line, problem.Column = lineAndColumn(s[:i])
		return "", problem
	}
	if strings.TrimSpace(s) == "" {
		return bad("the document is empty")
	}
	if line := tooDeep(s); line > 0 {
		_, problem := bad("the line is indented, or nests quotes and lists, deeper than %d levels", maxNesting)
		problem.Line = line
		return "", problem
	}
	return lineEnds.ReplaceAllString(s, "\n"), nil
}

func tooManyLines(lines int) string {
	return fmt.Sprintf("the document has %d lines; at most %d are allowed", lines, maxLines)
}

// invalidUTF8 is the offset of the first byte that is not part of a valid
// character; -1: none.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

// lineAndColumn is the place after the text. Columns count characters.
func lineAndColumn(before string) (line, column int) {
	last := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[last:])
}

// unwrap decodes JSON string literals, also nested ones.
func unwrap(doc []byte) string {
	s := withoutMarks(string(doc))
	for {
		var inner string
		t := strings.TrimSpace(s)
		if !strings.HasPrefix(t, `"`) || json.Unmarshal([]byte(t), &inner) != nil {
			return s
		}
		s = withoutMarks(inner)
	}
}

func withoutMarks(s string) string {
	if !strings.Contains(s, "\ufeff") {
		return s // the common case, without cost
	}
	return byteOrderMarks.ReplaceAllString(s, "")
}

// tooDeep finds the first line that nests too many quotes and lists: the depth of
// nesting is the depth of the parser's stack.
func tooDeep(s string) int {
	n := 0
	for line := range strings.Lines(s) {
		n++
		if nesting(line) > maxNesting {
			return n
		}
	}
	return 0
}

// nesting is at least the number of quotes and lists that a line can be in.
func nesting(line string) int {
	columns := 0
	for i := 0; i < len(line) && strings.IndexByte(" \t>-+*0123456789.)", line[i]) >= 0; i++ {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += 4
		case '>':
			columns += 2
		case '-', '+', '*', '.', ')':
			if i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t') {
				columns++
			}
		}
	}
	return columns / 2
}
