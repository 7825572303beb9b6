package search

import (
	"slices"
	"sort"
	"strings"
	"sync/atomic"
)

// maxRecent is how many words are kept aside before they are merged into the sorted ones.
const maxRecent = 512

// Numbered is a word and its number in documents.
type Numbered struct {
	Number uint32
	Text   string
}

// Vocabulary is the set of words of all chains, about 50 bytes each. It is
// read-only and safe for concurrent use; the zero value is empty.
type Vocabulary struct {
	sorted  []string
	numbers []uint32   // of the sorted
	letters []uint32   // of the sorted
	terms   []uint32   // hashes of the terms of the sorted, atomic; 0: not known yet
	recent  []Numbered // not yet among the sorted
}

// With returns the vocabulary with additional words. The number of a word never
// changes.
func (v Vocabulary) With(words []Numbered) Vocabulary {
	v.recent = slices.Concat(v.recent, words)
	if len(v.recent) <= maxRecent {
		return v
	}
	return v.merged()
}

// merged returns the vocabulary with all words sorted, each once.
func (v Vocabulary) merged() Vocabulary {
	recent := slices.SortedFunc(slices.Values(v.recent), func(a, b Numbered) int { return strings.Compare(a.Text, b.Text) })
	n := len(v.sorted) + len(recent)
	to := Vocabulary{sorted: make([]string, 0, n), numbers: make([]uint32, 0, n), letters: make([]uint32, 0, n), terms: make([]uint32, 0, n)}
	at := 0
	for _, word := range recent {
		end := at + sort.SearchStrings(v.sorted[at:], word.Text)
		to = to.append(v, at, end)
		at = end
		if at < len(v.sorted) && v.sorted[at] == word.Text || len(to.sorted) > 0 && to.sorted[len(to.sorted)-1] == word.Text {
			continue
		}
		to.sorted, to.numbers = append(to.sorted, word.Text), append(to.numbers, word.Number)
		to.letters, to.terms = append(to.letters, lettersOf(word.Text)), append(to.terms, 0)
	}
	return to.append(v, at, len(v.sorted))
}

// append appends some of the sorted words of another vocabulary.
func (v Vocabulary) append(from Vocabulary, i, j int) Vocabulary {
	v.sorted, v.numbers = append(v.sorted, from.sorted[i:j]...), append(v.numbers, from.numbers[i:j]...)
	v.letters = append(v.letters, from.letters[i:j]...)
	for ; i < j; i++ {
		v.terms = append(v.terms, atomic.LoadUint32(&from.terms[i]))
	}
	return v
}

// beginning is the range of the sorted words that begin with the root.
func (v Vocabulary) beginning(root string) (from, to int) {
	from, _ = slices.BinarySearch(v.sorted, root)
	to = from + sort.Search(len(v.sorted)-from, func(i int) bool { return !strings.HasPrefix(v.sorted[from+i], root) })
	return from, to
}

// similar calls found with all words that a mistyped word may mean or that contain it,
// and some others.
func (v Vocabulary) similar(w Word, found func(Numbered)) {
	likely := w.likely()
	from, to := 0, 0
	if len(w.Root) >= 2 {
		from, to = v.beginning(w.Root[:2])
	}
	for i, letters := range v.letters {
		if i >= from && i < to || likely.is(letters) {
			found(v.word(i))
		}
	}
	for _, word := range v.recent {
		found(word)
	}
}

// startingWith calls found with all words that begin with a root.
func (v Vocabulary) startingWith(root string, found func(Numbered)) {
	from, to := v.beginning(root)
	for i := from; i < to; i++ {
		found(v.word(i))
	}
	for _, word := range v.recent {
		if strings.HasPrefix(word.Text, root) {
			found(word)
		}
	}
}

// word is one of the sorted words.
func (v Vocabulary) word(i int) Numbered { return Numbered{v.numbers[i], v.sorted[i]} }

// ofTerm calls found with all words that have the term.
func (v Vocabulary) ofTerm(wanted string, found func(Numbered)) {
	beginning := beginningOf(wanted)
	hashed := hash32(wanted)
	from, to := v.beginning(beginning)
	for i := from; i < to; i++ {
		if v.term(i) == hashed && term(v.sorted[i]) == wanted {
			found(v.word(i))
		}
	}
	for _, word := range v.recent {
		if strings.HasPrefix(word.Text, beginning) && term(word.Text) == wanted {
			found(word)
		}
	}
}

// term is the hash of the term of a sorted word. It is made at the first use: making
// those of all words would delay the first search.
func (v Vocabulary) term(i int) uint32 {
	hashed := atomic.LoadUint32(&v.terms[i])
	if hashed == 0 {
		hashed = hash32(term(v.sorted[i]))
		atomic.StoreUint32(&v.terms[i], hashed)
	}
	return hashed
}

// hash32 is never 0.
func hash32(s string) uint32 { return max(1, uint32(hash(s))) } //nolint:gosec // half of it is enough
