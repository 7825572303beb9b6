package search_test

import (
	"slices"
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
		for _, p := range l.chains[0].Postings() {
			if p.Term == "" || slices.ContainsFunc([]rune(p.Term), func(r rune) bool { return r <= ' ' }) {
				t.Fatalf("term %q", p.Term)
			}
		}
		q := search.Ask(query)
		for _, s := range []search.Stats{{}, {Chains: 3, With: make([]int, len(q.Words()))}} {
			x := q.Scorer(l.vocabulary, s)
			r, ok := x.Score(l.documents[0])
			if ok != (r.Score > 0) || r.Score > 1 || r.Step != 0 {
				t.Fatalf("Score(%q) = %v, %v", query, r, ok)
			}
			x.Explain(l.documents[0])
		}
		if !search.Ask(title).Blank() {
			if r, _ := search.Ask(title).Scorer(l.vocabulary, search.Stats{Chains: 1}).Score(l.documents[0]); r.Score < 0.9 && len(title) < 1000 {
				t.Fatalf("Score of the title itself = %v, want at least 0.9", r)
			}
		}
	})
}

func FuzzParseDocument(f *testing.F) {
	l := libraryOf(written("Rotate the key", "Step one | some text | tag", "Step two | more text"))
	var numbers []uint32
	for _, word := range l.chains[0].Words() {
		numbers = append(numbers, l.numbers[word])
	}
	f.Add(l.chains[0].AppendBinary(nil, numbers))
	x := l.scorer("rotate step")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func([]byte) (search.Document, error){search.ParseDocument, search.OpenDocument} {
			if d, err := read(b); err == nil {
				x.Score(d)
				x.Explain(d)
			}
		}
	})
}
