package sqlite

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/search"
)

// vocabulary is all words that stand in chains of any space, in memory: about
// 50 bytes each. It only leads to terms to look up, which are looked up in the
// spaces of the caller.
type vocabulary struct {
	mu     sync.Mutex // guards the fields below
	last   int64      // id of the last word read
	sorted []string
	recent []string // not yet among the sorted
}

// words is the vocabulary at one moment.
type words struct{ sorted, recent []string }

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
	err := v.rows(readWords, []any{voc.last}, func(scan func(...any) error) error {
		var word string
		if err := scan(&voc.last, &word); err != nil {
			return err
		}
		voc.recent = append(voc.recent, word)
		return nil
	})
	if len(voc.recent) > maxRecent {
		// A new slice: the old one is being read.
		voc.sorted = slices.Concat(voc.sorted, voc.recent)
		slices.Sort(voc.sorted)
		voc.recent = nil
	}
	return words{voc.sorted, voc.recent}, err
}

// completions are the words that begin with a root, the shortest first.
func (w words) completions(root string) []string {
	if root == "" {
		return nil
	}
	from, _ := slices.BinarySearch(w.sorted, root)
	to := from
	for to < len(w.sorted) && strings.HasPrefix(w.sorted[to], root) {
		to++
	}
	found := slices.Clone(w.sorted[from:to])
	for _, word := range w.recent {
		if strings.HasPrefix(word, root) {
			found = append(found, word)
		}
	}
	return shortest(found, maxCompletions)
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
	for _, list := range [][]string{w.sorted, w.recent} {
		for _, word := range list {
			if len(word) < len(asked.Root)-2 {
				continue // no typing error makes it that much shorter
			}
			if n := asked.Mistyped(word); n > 0 {
				found = append(found, correction{word, n})
			}
		}
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
