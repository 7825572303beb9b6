package protocol

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// The lines of front matter when it is not YAML.
var (
	startOfKey  = regexp.MustCompile(`(?m)^[A-Za-z_]`)
	partOfFront = regexp.MustCompile(`^(?:[ \t]|#|-[ \t]|(?:"[^"]*"|'[^']*'|[A-Za-z_][\w .-]*)[ \t]*:(?:[ \t]|$))`)
	keyAndValue = regexp.MustCompile(`^([ \t]*(?:- )?(?:[A-Za-z_][\w .-]*)[ \t]*:[ \t]+)([^ \t].*)$`)
)

// meantAsFront reports whether text that is not YAML was meant as front matter and not as
// a sentence between two lines: it has one of our keys, or every line is a key, a part of
// a value or a comment, and keys are several or in lower case.
func meantAsFront(raw string) bool {
	if hasOurKey.MatchString(raw) {
		return true
	}
	before := ":"
	for line := range strings.Lines(raw) {
		line = strings.TrimRight(line, " \t\r\n")
		if !partOfFront.MatchString(line) || line[0] == '-' && startOfKey.MatchString(before) && !strings.HasSuffix(before, ":") {
			return false // an item does not follow a key that has a value
		}
		before = line
	}
	keys := startOfKey.FindAllString(raw, 2)
	return len(keys) > 1 || len(keys) == 1 && unicode.IsLower(rune(keys[0][0]))
}

// explained is an error of the YAML parser with the value that has to be in quotes, if
// there is one.
func (f frontMatter) explained(broken Diagnostic) Diagnostic {
	at := 0
	for line := range strings.Lines(f.raw) {
		at++
		m := keyAndValue.FindStringSubmatch(strings.TrimRight(line, " \t\r\n"))
		if m == nil || !needsQuotes(m[2]) {
			continue
		}
		quoted, _ := quote(cut(m[2])) // a text
		broken.Line, broken.Column = at, columns(m[1])+1
		broken.Message += fmt.Sprintf("; put the value in quotes: %s%s", strings.TrimLeft(m[1], " \t"), quoted)
		break
	}
	broken.Line += f.line - 1
	return broken
}

// needsQuotes reports whether YAML takes a value on one line for something else than
// text, or for an error.
func needsQuotes(value string) bool {
	switch value[0] {
	case '"', '\'', '[', '{', '|', '>', '#':
		return false // is written as what it is, or in quotes
	case '*', '&', '!', '%', '@', '`':
		return true
	}
	return strings.Contains(value, ": ") || strings.HasSuffix(value, ":")
}
