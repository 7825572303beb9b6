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
		d := search.Analyse(protocol.Chain{Title: title, Slug: label, Steps: []protocol.Step{{Label: label, Text: text}}})
		for _, term := range d.Terms() {
			if term == "" || slices.ContainsFunc([]rune(term), func(r rune) bool { return r <= ' ' }) {
				t.Fatalf("term %q", term)
			}
		}
		d.Trigrams()
		q := search.Ask(query)
		for _, s := range []search.Stats{{}, {Chains: 3, With: make([]int, len(q.Words()))}} {
			r, ok := q.Score(d, s)
			if ok != (r.Score > 0) || r.Score > 1 || r.Step != 0 {
				t.Fatalf("Score(%q) = %v, %v", query, r, ok)
			}
			q.Explain(d, s)
		}
		if !search.Ask(title).Blank() {
			if r, _ := search.Ask(title).Score(d, search.Stats{Chains: 1}); r.Score < 0.9 && len(title) < 1000 {
				t.Fatalf("Score of the title itself = %v, want at least 0.9", r)
			}
		}
	})
}

func FuzzParseDocument(f *testing.F) {
	d := search.Analyse(written("Rotate the key", "Step one | some text | tag", "Step two | more text"))
	b, _ := d.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func([]byte) (search.Document, error){search.ParseDocument, search.OpenDocument} {
			d, err := read(b)
			if err != nil {
				continue
			}
			d.Terms()
			d.Postings()
			q := search.Ask("rotate step")
			q.Score(d, search.Stats{})
			q.Explain(d, search.Stats{})
		}
	})
}
