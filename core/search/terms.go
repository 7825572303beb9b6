package search

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The first characters of terms that are not words of any field. No word has an underscore.
const (
	inTitle = "t_" // words of names
	inLabel = "l_" // words of labels
	isExact = "x_" // one of these texts as a whole
	isLoose = "y_" // its words in any order and form
)

// Terms are what a backend indexes to find the chain: distinct, sorted, of
// lower-case letters, digits, marks and underscores, so that blanks may stand
// between them. Query.Words and Query.Names say what to look for.
func (d Document) Terms() []string { return d.terms(func(place) bool { return true }) }

// StepTerms are the terms of one step; those of the chain (title, description)
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

// Vocabulary are the distinct words of the chain as they are written, folded,
// sorted; what a word that is mistyped or not typed to its end can be
// completed to. Words that nobody types are not among them.
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

// Trigrams are those of the words of title, alternative title, slug, tags and
// labels: distinct and sorted, for backends that find mistyped words by them.
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
