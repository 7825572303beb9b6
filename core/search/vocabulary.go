package search

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// maxRecent words are kept aside until they are sorted in.
	maxRecent = 512
	// What a word is completed or corrected to, at most.
	maxCompletions = 40
	maxCorrections = 20
)

// Vocabulary is the words that stand in some chain, about 50 bytes each. It is
// read-only and safe for concurrent use; the zero value has no words.
type Vocabulary struct{ sorted, recent []string }

// Len is the number of words; one that was added twice may count twice.
func (v Vocabulary) Len() int { return len(v.sorted) + len(v.recent) }

// Missing are those of the words that the vocabulary lacks.
func (v Vocabulary) Missing(words []string) []string {
	var out []string
	for _, w := range words {
		if _, found := slices.BinarySearch(v.sorted, w); !found && !slices.Contains(v.recent, w) {
			out = append(out, w)
		}
	}
	return out
}

// With is the vocabulary with these words too.
func (v Vocabulary) With(words []string) Vocabulary {
	recent := slices.Concat(v.recent, words)
	if len(recent) <= maxRecent {
		return Vocabulary{v.sorted, recent}
	}
	slices.Sort(recent)
	return Vocabulary{sorted: merged(v.sorted, slices.Compact(recent))}
}

// merged is both sorted lists as one, without repeats.
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

// Words are all of them, sorted.
func (v Vocabulary) Words() []string {
	recent := slices.Sorted(slices.Values(v.recent))
	return merged(v.sorted, slices.Compact(recent))
}

// Completions are the terms of the words that begin with the word's root, the
// shortest words first.
func (v Vocabulary) Completions(w Word) []string {
	if w.Root == "" {
		return nil
	}
	from, _ := slices.BinarySearch(v.sorted, w.Root)
	to := from
	for to < len(v.sorted) && strings.HasPrefix(v.sorted[to], w.Root) {
		to++
	}
	found := slices.Clone(v.sorted[from:to])
	for _, word := range v.recent {
		if strings.HasPrefix(word, w.Root) {
			found = append(found, word)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return w.termsOf(found[:min(len(found), maxCompletions)])
}

// Corrections are the terms of the words that a mistyped one may be, and of
// those that contain it, the likeliest first.
func (v Vocabulary) Corrections(w Word) []string {
	type correction struct {
		word   string
		errors int
	}
	var found []correction
	for _, list := range [][]string{v.sorted, v.recent} {
		for _, word := range list {
			if len(word) < len(w.Root)-2 {
				continue // no typing error makes it that much shorter
			}
			if n := w.Mistyped(word); n > 0 {
				found = append(found, correction{word, n})
			}
		}
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

// termsOf are the distinct terms of words that stand in for w.
func (w Word) termsOf(words []string) []string {
	var out []string
	for _, word := range words {
		if t := w.Completed(word).Term; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
