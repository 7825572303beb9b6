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
	text   string
	name   name
	words  []Word
	filler bool // it consists of stop words
}

// Word is one word of a query.
type Word struct {
	Text string // folded
	// Term is in the Postings of every chain that has the word in any form.
	Term string
	// Root is the prefix, in a Vocabulary, of the other forms of the word.
	// Empty: the word is too short to have any.
	Root string
	// Unfinished reports that the word was typed last and may be incomplete. It is
	// completed.
	Unfinished bool

	short, last bool // too short to be completed; typed last
}

// Completed returns the word with the term of a word of the vocabulary in place of
// its own, to look that up.
func (w Word) Completed(vocabulary string) Word {
	w.Term = term(vocabulary)
	return w
}

// Completes reports whether a word of the vocabulary is another form of the
// query's word, or a completion of an unfinished one.
func (w Word) Completes(vocabulary string) bool {
	return w.formOf(vocabulary) || w.Unfinished && strings.HasPrefix(vocabulary, w.Text)
}

// formOf reports whether both are forms of one word according to Polish endings.
func (w Word) formOf(vocabulary string) bool { return len(w.Root) >= 4 && root(vocabulary) == w.Root }

// inside reports whether the word is a part of another one.
func (w Word) inside(vocabulary string) bool {
	return utf8.RuneCountInString(w.Text) >= shortestPart && strings.Contains(vocabulary, w.Text)
}

// Mistyped returns how far a word of the vocabulary is from the query's word: the
// number of typing errors, 1 for a completion, 3 if it contains the word, and 0
// for an unrelated word.
func (w Word) Mistyped(vocabulary string) int {
	if n := w.errors(vocabulary); n > 0 {
		return n
	}
	switch {
	case !w.short && strings.HasPrefix(vocabulary, w.Text):
		return 1
	case w.inside(vocabulary):
		return 3
	}
	return 0
}

// lettersOf is the set of letters of a word, hashed into 32 bits.
func lettersOf(word string) uint32 {
	var set uint32
	for i := range len(word) {
		set |= 1 << (word[i] & 31)
	}
	return set
}

// likely is a fast check before Mistyped.
type likely struct {
	letters uint32
	changed int
}

// likely returns the check for the word.
func (w Word) likely() likely {
	// An error changes at most two letters of the set.
	return likely{letters: lettersOf(w.Text), changed: 2 * Typos(w.Text)}
}

// is reports whether Mistyped may be more than 0 for a word with these letters.
// For words that begin with the root it always may.
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
	q := Query{text: text, name: nameOf(text)}
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

// Words are the distinct words of the query, in order.
func (q Query) Words() []Word { return slices.Clone(q.words) }

// Named is the query for chains that have it as a name, or one that looks like it.
func (q Query) Named() Query {
	q.words, q.filler = nil, false
	return q
}

// Names are in the Postings of chains whose title, alternative title, slug or trigger
// equals the query, looks like it, or has exactly its words.
func (q Query) Names() []string { return q.name.terms() }

// Blank reports whether the query has no words.
func (q Query) Blank() bool { return q.name.exact == 0 }
