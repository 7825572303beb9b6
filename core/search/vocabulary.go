package search

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

const (
	// maxRecent is how many words are kept aside before they are merged into the sorted ones.
	maxRecent = 512
	// The most completions and corrections of a word.
	maxCompletions = 40
	maxCorrections = 20
)

// Vocabulary is the set of words of all chains, about 50 bytes each. It is
// read-only and safe for concurrent use; the zero value is empty.
type Vocabulary struct {
	sorted  []string
	letters []uint32 // of the sorted
	recent  []string // not yet among the sorted
}

// Len is the number of words; one that was added twice may count twice.
func (v Vocabulary) Len() int { return len(v.sorted) + len(v.recent) }

// Missing returns the words that the vocabulary lacks.
func (v Vocabulary) Missing(words []string) []string {
	var out []string
	for _, w := range words {
		if _, found := slices.BinarySearch(v.sorted, w); !found && !slices.Contains(v.recent, w) {
			out = append(out, w)
		}
	}
	return out
}

// With returns the vocabulary with additional words.
func (v Vocabulary) With(words []string) Vocabulary {
	recent := slices.Concat(v.recent, words)
	if len(recent) <= maxRecent {
		return Vocabulary{v.sorted, v.letters, recent}
	}
	slices.Sort(recent)
	sorted := merged(v.sorted, slices.Compact(recent))
	letters := make([]uint32, len(sorted))
	for i, word := range sorted {
		letters[i] = lettersOf(word)
	}
	return Vocabulary{sorted: sorted, letters: letters}
}

// merged merges two sorted lists without duplicates.
func merged(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Words returns all words, sorted.
func (v Vocabulary) Words() []string {
	recent := slices.Sorted(slices.Values(v.recent))
	return merged(v.sorted, slices.Compact(recent))
}

// Completions returns the terms of the other forms of the word and, if it is
// unfinished, of its completions, the shortest words first.
func (v Vocabulary) Completions(w Word) []string {
	if w.Root == "" {
		return nil
	}
	from, to := v.beginning(w.Root)
	var found []string
	for _, words := range [][]string{v.sorted[from:to], v.recent} {
		for _, word := range words {
			if strings.HasPrefix(word, w.Root) && w.Completes(word) {
				found = append(found, word)
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return w.termsOf(found[:min(len(found), maxCompletions)])
}

// beginning is the range of the sorted words that begin with a root.
func (v Vocabulary) beginning(root string) (from, to int) {
	from, _ = slices.BinarySearch(v.sorted, root)
	to = from + sort.Search(len(v.sorted)-from, func(i int) bool { return !strings.HasPrefix(v.sorted[from+i], root) })
	return from, to
}

// Corrections returns the terms of words that a mistyped word may mean, and of
// those that contain it, the likeliest first.
func (v Vocabulary) Corrections(w Word) []string {
	type correction struct {
		word   string
		errors int
	}
	var found []correction
	consider := func(word string) {
		if n := w.Mistyped(word); n > 0 {
			found = append(found, correction{word, n})
		}
	}
	likely := w.likely()
	from, to := 0, 0
	if len(w.Root) >= 2 {
		from, to = v.beginning(w.Root[:2])
	}
	for i, letters := range v.letters {
		if i >= from && i < to || likely.is(letters) {
			consider(v.sorted[i])
		}
	}
	for _, word := range v.recent {
		consider(word)
	}
	slices.SortFunc(found, func(a, b correction) int {
		return cmp.Or(cmp.Compare(a.errors, b.errors), strings.Compare(a.word, b.word))
	})
	words := make([]string, 0, maxCorrections)
	for _, c := range found[:min(maxCorrections, len(found))] {
		words = append(words, c.word)
	}
	return w.termsOf(words)
}

// termsOf returns the distinct terms of alternatives to w.
func (w Word) termsOf(words []string) []string {
	var out []string
	for _, word := range words {
		if t := w.Completed(word).Term; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
