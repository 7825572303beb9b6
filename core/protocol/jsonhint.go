package protocol

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// jsonHint says what to do about a mistake that people make in JSON, given the offset
// at which the text stops being JSON; empty if the mistake is another one.
func jsonHint(text []byte, offset int) string {
	if offset >= len(bytes.TrimRight(text, " \t\r\n")) {
		return "; a brace, a bracket or a quote is not closed"
	}
	here, _ := utf8.DecodeRune(text[offset:])
	before := bytes.TrimRight(text[:offset], " \t\r\n")
	switch {
	case inJSONString(text[:offset]):
		return stringHint(here)
	case strings.ContainsRune("\u201c\u201d\u201e\u2018\u2019", here):
		return `; write straight quotes: "`
	case here == '\'':
		return "; JSON has double quotes only"
	case here == '/' || here == '#':
		return "; JSON has no comments: a yaml block has"
	case (here == '}' || here == ']') && bytes.HasSuffix(before, []byte(",")):
		return "; remove the comma before it"
	case bytes.HasSuffix(before, []byte(`"`)):
		return `; a quote inside a text is written \", or write the block as yaml, where a text may have quotes; between two members stands a comma`
	case here == 'T' || here == 'F' || here == 'N' || here == 'y' || here == 'o':
		return "; the words of JSON are true, false and null"
	case here == '_' || 'a' <= here && here <= 'z' || 'A' <= here && here <= 'Z':
		return "; names and texts stand in double quotes"
	}
	return ""
}

// stringHint is the hint for a character that cannot stand in a text.
func stringHint(here rune) string {
	switch {
	case here == '\n' || here == '\r':
		return `; a line end inside a text is written \n, or write the block as yaml, where a text may have lines`
	case here == '\t':
		return `; a tab inside a text is written \t`
	case here > ' ':
		return `; a backslash inside a text is written \\`
	}
	return ""
}

// inJSONString reports whether a text of JSON ends inside a string.
func inJSONString(text []byte) bool {
	inside := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			inside = !inside
		case inside && text[i] == '\\':
			i++
		}
	}
	return inside
}
