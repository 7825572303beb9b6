package sqlite

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/search"
)

// vocabulary is all words that stand in chains of any space, in memory: about
// 40 bytes each. It only leads to terms to look up, which are looked up in the
// spaces of the caller.
type vocabulary struct {
	mu   sync.Mutex // guards the fields below
	last int64      // id of the last word read
	words
}

// words is the vocabulary at one moment.
type words struct {
	sorted  []string
	letters []uint32 // search.Letters of the sorted
	recent  []string // not yet among the sorted
}

// The limits of what a word is completed or corrected to.
const (
	maxRecent      = 512
	maxCompletions = 40
	maxCorrections = 20
)

// refresh reads the words that were added since.
func (voc *vocabulary) refresh(v *view) (words, error) {
	voc.mu.Lock()
	defer voc.mu.Unlock()
	for more := true; more; {
		var last *int64
		var read *string
		// One row for many words, because a row costs more than what is in it.
		if err := v.row(readWords, []any{voc.last}, &last, &read); err != nil {
			return words{}, err
		}
		if more = last != nil; more {
			voc.last = *last
			voc.recent = append(voc.recent, strings.Split(*read, " ")...)
		}
	}
	if len(voc.recent) > maxRecent {
		// A new slice: the old one is being read.
		voc.sorted = slices.Concat(voc.sorted, voc.recent)
		slices.Sort(voc.sorted)
		voc.letters = make([]uint32, len(voc.sorted))
		for i, word := range voc.sorted {
			voc.letters[i] = search.Letters(word)
		}
		voc.recent = nil
	}
	return voc.words, nil
}

// completions are the words that begin with a root, the shortest first.
func (w words) completions(root string) []string {
	if root == "" {
		return nil
	}
	from, to := w.beginning(root)
	found := slices.Clone(w.sorted[from:to])
	for _, word := range w.recent {
		if strings.HasPrefix(word, root) {
			found = append(found, word)
		}
	}
	return shortest(found, maxCompletions)
}

// beginning is the range of the sorted words that begin with a root.
func (w words) beginning(root string) (from, to int) {
	from, _ = slices.BinarySearch(w.sorted, root)
	to = from + sort.Search(len(w.sorted)-from, func(i int) bool { return !strings.HasPrefix(w.sorted[from+i], root) })
	return from, to
}

func shortest(words []string, n int) []string {
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return words[:min(n, len(words))]
}

// corrections are the words that a mistyped one may be, and those that contain
// it, the best first.
func (w words) corrections(asked search.Word) []string {
	type correction struct {
		word   string
		errors int
	}
	var found []correction
	consider := func(word string) {
		if n := asked.Mistyped(word); n > 0 {
			found = append(found, correction{word, n})
		}
	}
	likely := asked.Likely()
	from, to := 0, 0
	if len(asked.Root) >= 2 {
		from, to = w.beginning(asked.Root[:2])
	}
	for i, letters := range w.letters {
		if i >= from && i < to || likely.Is(letters) {
			consider(w.sorted[i])
		}
	}
	for _, word := range w.recent {
		consider(word)
	}
	slices.SortFunc(found, func(a, b correction) int {
		return cmp.Or(cmp.Compare(a.errors, b.errors), strings.Compare(a.word, b.word))
	})
	var out []string
	for _, c := range found[:min(maxCorrections, len(found))] {
		out = append(out, c.word)
	}
	return out
}
