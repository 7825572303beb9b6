package search

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of a query; the rest of it is ignored.
const (
	maxQuery = 64 << 10 // bytes
	maxWords = 24       // the longest ones
)

// Query is an analysed query. It is read-only and safe for concurrent use.
type Query struct {
	name   name
	words  []Word
	filler bool // it consists of stop words
}

// Word is one word of a query.
type Word struct {
	Text string // folded
	// Term is what the forms of the word have in common.
	Term string
	// Root is the prefix, in a Vocabulary, of the other forms of the word.
	// Empty: the word is too short to have any.
	Root string
	// Unfinished reports that the word was typed last and may be incomplete. It is
	// completed.
	Unfinished bool

	short, last bool // too short to be completed; typed last
}

// formOf reports whether both are forms of one word according to Polish endings.
func (w Word) formOf(vocabulary string) bool { return len(w.Root) >= 4 && root(vocabulary) == w.Root }

// inside reports whether the word is a part of another one.
func (w Word) inside(vocabulary string) bool {
	return utf8.RuneCountInString(w.Text) >= shortestPart && strings.Contains(vocabulary, w.Text)
}

// lettersOf is the set of letters of a word, hashed into 32 bits.
func lettersOf(word string) uint32 {
	var set uint32
	for i := range len(word) {
		set |= 1 << (word[i] & 31)
	}
	return set
}

// likely is a fast check before the likeness of a mistyped word.
type likely struct {
	letters uint32
	changed int
}

// likely returns the check for the word.
func (w Word) likely() likely {
	// An error changes at most two letters of the set.
	return likely{letters: lettersOf(w.Text), changed: 2 * Typos(w.Text)}
}

// is reports whether a word with these letters may be the mistyped one, or have it
// inside. A word that begins like it always may.
func (l likely) is(letters uint32) bool {
	return bits.OnesCount32(l.letters^letters) <= l.changed || l.letters&^letters == 0
}

// Ask analyses a query. Stop words are left out unless there are no other words;
// then a title must have all of them. The order of words matters only for exact
// titles.
func Ask(text string) Query {
	if len(text) > maxQuery {
		text = text[:maxQuery]
	}
	q := Query{name: nameOf(text)}
	var all []string
	for _, t := range tokens(text) {
		if t.primary {
			all = append(all, t.text)
		}
	}
	said := telling(all)
	q.filler = len(said) > 0 && common[said[0]]
	last := lastTyped(text, all)
	for _, w := range longest(distinct(said)) {
		q.words = append(q.words, wordOf(w, w == last))
	}
	return q
}

// lastTyped is the last of the words if the text ends with it; empty if
// punctuation or a blank follows.
func lastTyped(text string, words []string) string {
	if r, _ := utf8.DecodeLastRuneInString(text); len(words) == 0 || separates(r) {
		return ""
	}
	return words[len(words)-1]
}

func wordOf(text string, last bool) Word {
	n := utf8.RuneCountInString(text)
	w := Word{Text: text, Term: term(text), short: n < shortestBeginning, last: last}
	if n >= 3 {
		w.Root = root(text)
	}
	w.Unfinished = last && !w.short
	return w
}

func distinct(words []string) []string {
	seen := make(map[string]bool, len(words))
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		known := seen[w]
		seen[w] = true
		return known
	})
}

// longest keeps the longest words, in their order.
func longest(words []string) []string {
	if len(words) <= maxWords {
		return words
	}
	sorted := slices.SortedFunc(slices.Values(words), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	keep := map[string]bool{}
	for _, w := range sorted[:maxWords] {
		keep[w] = true
	}
	return slices.DeleteFunc(words, func(w string) bool { return !keep[w] })
}
