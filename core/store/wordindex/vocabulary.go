package wordindex

import (
	"maps"
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
	var added []search.Numbered
	for {
		words, err := r.Words(voc.last)
		if err != nil {
			return search.Vocabulary{}, err
		}
		if len(words) == 0 {
			break
		}
		for _, word := range words {
			voc.last = max(voc.last, int64(word.Number))
		}
		added = append(added, words...)
	}
	voc.words = voc.words.With(added)
	return voc.words, nil
}

// maxKnownWords bounds the memory of KnownWords to about 10 megabytes.
const maxKnownWords = 128 << 10

// KnownWords caches the numbers of stored words, so that not every word of every chain
// is looked up in the database. Words are never deleted.
type KnownWords struct {
	mu      sync.Mutex // guards the field below
	numbers map[string]uint32
}

// number returns the numbers of those of the words that are known, and the others.
func (k *KnownWords) number(words map[string]int) (numbers map[string]uint32, unknown []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	numbers = make(map[string]uint32, len(words))
	for w := range words {
		if number, known := k.numbers[w]; known {
			numbers[w] = number
		} else {
			unknown = append(unknown, w)
		}
	}
	return numbers, unknown
}

// Add must be called after the words are committed.
func (k *KnownWords) Add(words map[string]uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.numbers == nil || len(k.numbers) > maxKnownWords {
		k.numbers = make(map[string]uint32, len(words))
	}
	maps.Copy(k.numbers, words)
}
