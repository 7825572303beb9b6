package wordindex

import (
	"maps"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/search"
)

// vocabulary holds the words of chains of all spaces that this process knows. They
// only lead to terms, which are looked up in the spaces of the caller.
type vocabulary struct {
	mu    sync.Mutex // guards the fields below
	last  int64      // id of the last word read
	words search.Vocabulary
}

// refresh reads the words that were added since.
func (voc *vocabulary) refresh(r Reader) (search.Vocabulary, error) {
	voc.mu.Lock()
	defer voc.mu.Unlock()
	for {
		last, words, err := r.Words(voc.last)
		if err != nil {
			return search.Vocabulary{}, err
		}
		if len(words) == 0 {
			return voc.words, nil
		}
		voc.last = last
		voc.words = voc.words.With(words)
	}
}

// maxKnownWords bounds the memory of KnownWords to a few megabytes.
const maxKnownWords = 64 << 10

// KnownWords caches stored words, so that not every word of every chain is looked
// up in the database. Words are never deleted.
type KnownWords struct {
	mu    sync.Mutex // guards the field below
	words map[string]bool
}

// unknown returns the words that may not be stored yet, sorted.
func (k *KnownWords) unknown(words map[string]bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for w := range words {
		if !k.words[w] {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}

// Add must be called after the words are committed.
func (k *KnownWords) Add(words map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.words == nil || len(k.words) > maxKnownWords {
		k.words = make(map[string]bool, len(words))
	}
	maps.Copy(k.words, words)
}
