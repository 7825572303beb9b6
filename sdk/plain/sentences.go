package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip shortens a text to n bytes, and says with an ellipsis that it did.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Sentences makes one text of sentences: each ends with a full stop, unless it ends
// with another mark or with a code block, and empty ones are left out.
func Sentences(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		p = strings.TrimSpace(p)
		if p == "" {
			continue
		}
		switch before := b.String(); {
		case strings.HasSuffix(before, fence): // what follows on its line would not close the block
			b.WriteString("\n")
		case before != "":
			b.WriteString(" ")
		}
		b.WriteString(p)
		if last, _ := utf8.DecodeLastRuneInString(p); !strings.ContainsRune(".!?:…", last) && !strings.HasSuffix(p, fence) {
			b.WriteString(".")
		}
	}
	return b.String()
}

// Capital is the text with its first letter in upper case.
func Capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 || !unicode.IsLower(first) {
		return s
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// Continued is the text as it continues a line after a colon: with its first letter in lower
// case, unless the word is an abbreviation or a name in capitals.
func Continued(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if second, _ := utf8.DecodeRuneInString(s[size:]); !unicode.IsUpper(first) || unicode.IsUpper(second) {
		return s
	}
	return string(unicode.ToLower(first)) + s[size:]
}

// fence is how a code block of Markdown ends.
const fence = "```"
