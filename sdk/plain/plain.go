// Package plain makes texts of others fit to be shown: what cannot be seen,
// steers a terminal, or turns the direction of what follows is named instead of
// done. It is not an escape for a markup; HTML is escaped as well.
package plain

import (
	"fmt"
	"strings"
	"unicode"
)

// Text is a text of several lines: line feeds and tabs stay.
func Text(s string) string {
	return shown(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

// Line is a text on one line: what would end it, and tabs, become spaces.
func Line(s string) string {
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ", "\r", " ").Replace(s)
	return shown(s, func(rune) bool { return false })
}

func shown(s string, stays func(rune) bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	named := func(r rune) bool {
		return !stays(r) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
	}
	if !strings.ContainsFunc(s, named) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if named(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
