package search

import (
	"math/bits"
	"strings"
)

// How much a word of a chain is the one asked for.
const (
	likeForm   = 0.97 // another form of it
	likeRoot   = 0.9  // another form by the rules of Polish
	likePrefix = 0.8  // it goes on after what was typed; up to likePrefixMore for the share that was
	likePart   = 0.6  // it has the word inside
	likeTypo   = 0.85 // one typing error away
	likeTypos  = 0.75 // two

	likePrefixMore = 0.1

	shortestBeginning = 4 // letters of a word that is completed
	shortestPart      = 5 // letters of a word that is looked for inside others
)

// look is one word of a query, ready to be compared.
type look struct {
	Word
	typos int  // forgiven
	part  bool // it may be a part of another word: no chain has it
}

func (w Word) look(forgiving bool) look {
	l := look{Word: w}
	if forgiving {
		l.typos, l.part = Typos(w.Text), !w.short
	}
	return l
}

// likeness says how much a word is the one looked for; 0: it is another one.
func (l *look) likeness(w *walk) (float64, string) {
	switch {
	case string(w.text) == l.Text:
		return 1, RankerWords
	case w.hasTerm(l.Term):
		return likeForm, RankerWords
	case l.Root != "" && len(w.text) >= len(l.Root) && string(w.text[:len(l.Root)]) == l.Root:
		text := string(w.text)
		if l.formOf(text) {
			return likeRoot, RankerWords
		}
		if (l.Unfinished || l.part) && strings.HasPrefix(text, l.Text) {
			return likePrefix + likePrefixMore*float64(len(l.Text))/float64(len(text)), RankerPrefix
		}
	}
	if l.typos == 0 && !l.part {
		return 0, ""
	}
	text := string(w.text)
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

// errors is the number of typing errors in the word if it should be the found
// one, or one in another form; 0: it should not.
func (w Word) errors(found string) int {
	if n := mistyped(w.Text, found); n > 0 {
		return n
	}
	if w.Root == w.Text || len(w.Root) < 4 || !strings.HasPrefix(found, w.Root[:2]) {
		return 0 // too much would have to be wrong at once
	}
	return mistyped(w.Root, root(found))
}

// mistyped returns how many typing errors make the asked word the found one;
// 0: it is not a mistyped form of it. The first letter of a short word is
// taken to be right.
func mistyped(asked, found string) int {
	// An error changes at most two letters of the set. Most words end here.
	changed := bits.OnesCount32(lettersOf(asked) ^ lettersOf(found))
	if changed > 4 {
		return 0
	}
	limit := min(Typos(asked), Typos(found))
	if limit == 0 || changed > 2*limit || len(asked) < 6 && asked[0] != found[0] {
		return 0
	}
	n := Distance(asked, found, limit)
	if n > limit {
		return 0
	}
	return n
}
