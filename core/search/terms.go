package search

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The prefixes of terms that are not plain words. No word has an underscore.
const (
	inTitle = "t_" // words of names
	inLabel = "l_" // words of labels
	isExact = "x_" // hash of a name
	isLoose = "y_" // hash of the words of a name in any order and form
)

// Terms are the index entries of the chain: distinct, sorted, of lower-case
// letters, digits, marks and underscores, so that they can be joined by blanks.
// Query.Words and Query.Names have the terms to look up.
func (d Document) Terms() []string { return d.terms(func(place) bool { return true }) }

// StepTerms are the terms of one step. Those of the chain (title, description)
// belong to every step.
func (d Document) StepTerms(step int) []string {
	return d.terms(func(p place) bool { return p.field().ofChain() || p.step() == step })
}

func (d Document) terms(of func(place) bool) []string {
	found := make([]string, 0, d.words+32)
	for w := d.walk(); w.next(); {
		var text, title, label bool
		for p := range w.each() {
			if !of(p) {
				continue
			}
			text = true
			title = title || p.field().names()
			label = label || p.field() == fieldLabel
		}
		if !text {
			continue
		}
		term := w.term()
		found = append(found, term)
		if title {
			found = append(found, inTitle+term)
		}
		if label {
			found = append(found, inLabel+term)
		}
	}
	for _, n := range d.names {
		found = append(found, n.terms()...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (n name) terms() []string {
	if n.exact == 0 {
		return nil
	}
	return []string{isExact + strconv.FormatUint(n.exact, 36), isLoose + strconv.FormatUint(n.loose, 36)}
}

// Vocabulary returns the distinct words of the chain as they are written, folded
// and sorted, to complete and correct words of queries. It leaves out words that
// nobody types.
func (d Document) Vocabulary() []string {
	var out []string
	for w := d.walk(); w.next(); {
		if n := utf8.RuneCount(w.text); n >= 3 && n <= 30 && hasLetter(w.text) {
			out = append(out, string(w.text))
		}
	}
	return out
}

func hasLetter(word []byte) bool {
	return bytes.ContainsFunc(word, func(r rune) bool { return r > '9' })
}

// Trigrams returns the trigrams of the words of title, alternative title, slug,
// tags and labels, distinct and sorted, for backends that find mistyped words by
// them.
func (d Document) Trigrams() []string {
	found := map[string]bool{}
	for w := d.walk(); w.next(); {
		if w.best() < InTags || common[string(w.text)] {
			continue
		}
		for _, t := range Trigrams(string(w.text)) {
			found[t] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
