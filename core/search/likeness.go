package search

import (
	"math/bits"
	"strings"
)

// How similar a word of a chain is to a word of the query.
const (
	likeForm   = 0.97 // another form of the word
	likeRoot   = 0.9  // another form according to Polish endings
	likePrefix = 0.8  // a completion; up to likePrefixMore is added for the share that was typed
	likePart   = 0.6  // a word that contains it
	likeTypo   = 0.85 // one typing error away
	likeTypos  = 0.75 // two

	likePrefixMore = 0.1

	shortestBeginning = 4 // letters of a word to complete
	shortestPart      = 5 // letters of a word to find inside others
)

// look is one word of a query, prepared for comparison.
type look struct {
	Word
	typos int  // tolerated
	part  bool // it may match inside other words: no chain has it
}

func (w Word) matcher(forgiving bool) look {
	l := look{Word: w}
	if forgiving {
		l.typos, l.part = Typos(w.Text), !w.short
	}
	return l
}

// forgiving reports whether words match that differ in more than their form.
func (l *look) forgiving() bool { return l.typos > 0 || l.part }

// likeness returns how similar a word is to the word of the query, 0 if it is not.
// sameTerm reports whether it has the term of that word.
func (l *look) likeness(text string, sameTerm bool) (float64, string) {
	switch {
	case text == l.Text:
		return 1, RankerWords
	case sameTerm:
		return likeForm, RankerWords
	case l.Root != "" && strings.HasPrefix(text, l.Root):
		if l.formOf(text) {
			return likeRoot, RankerWords
		}
		if (l.Unfinished || l.part) && strings.HasPrefix(text, l.Text) {
			return likePrefix + likePrefixMore*float64(len(l.Text))/float64(len(text)), RankerPrefix
		}
	}
	if l.part && l.inside(text) {
		return likePart, RankerTypo
	}
	if l.typos > 0 {
		return l.mistyped(text), RankerTypo
	}
	return 0, ""
}

func (l *look) mistyped(found string) float64 {
	switch l.errors(found) {
	case 1:
		return likeTypo
	case 2:
		return likeTypos
	}
	return 0
}

// errors returns the number of typing errors if the word was meant to be the found
// one, or one in another form; 0: it was not.
func (w Word) errors(found string) int {
	if n := mistyped(w.Text, found); n > 0 {
		return n
	}
	if w.Root == w.Text || len(w.Root) < 4 || !strings.HasPrefix(found, w.Root[:2]) {
		return 0 // too many errors at once
	}
	return mistyped(w.Root, root(found))
}

// mistyped returns how many typing errors turn the typed word into the found one;
// 0: it is another word. The first letter of a short word is assumed to be right.
func mistyped(typed, found string) int {
	// An error changes at most two letters of the set. This rejects most words.
	changed := bits.OnesCount32(lettersOf(typed) ^ lettersOf(found))
	if changed > 4 {
		return 0
	}
	limit := min(Typos(typed), Typos(found))
	if limit == 0 || changed > 2*limit || len(typed) < 6 && typed[0] != found[0] {
		return 0
	}
	n := Distance(typed, found, limit)
	if n > limit {
		return 0
	}
	return n
}
