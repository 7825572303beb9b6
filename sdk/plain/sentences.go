package plain

import (
	"strings"
)

// Clip shortens a text to n bytes, and says with an ellipsis that it did.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Sentences makes one text of sentences: each ends with a full stop, unless it ends
// with another mark, and empty ones are left out.
func Sentences(parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		p = strings.TrimSpace(p)
		if p == "" {
			continue
		}
		if !strings.ContainsRune(".!?:…", rune(p[len(p)-1])) {
			p += "."
		}
		kept = append(kept, p)
	}
	return strings.Join(kept, " ")
}
