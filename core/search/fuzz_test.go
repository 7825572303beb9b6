package search_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

func FuzzSearch(f *testing.F) {
	f.Add("Rotate the key", "Step one", "some text", "rotate")
	f.Add("会議を予約する", "e-mail's \x00\xff", "İstanbul ﬁ ½", "会 kalendér-x")
	f.Add("''--a--b'", "aB-Cd'e", "ÅÄÖ\u0301\u200d", "'")
	f.Fuzz(func(t *testing.T, title, label, text, query string) {
		l := libraryOf(protocol.Chain{Title: title, Slug: label, Steps: []protocol.Step{{Label: label, Text: text}}})
		if found := l.found(query, 0); found != nil && (found.Score <= 0 || found.Score > 1) {
			t.Fatalf("Search(%q) = %+v", query, found)
		}
		if got := l.score(title, 0); !search.Ask(title).Blank() && got < 0.9 && len(title) < 1000 {
			t.Fatalf("the score of the title itself is %v, want at least 0.9", got)
		}
	})
}
