package sqlite

import (
	"maps"
	"slices"
	"strings"
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
func (voc *vocabulary) refresh(v *view) (search.Vocabulary, error) {
	voc.mu.Lock()
	defer voc.mu.Unlock()
	for {
		var last *int64
		var read *string
		// One row for many words, because a row costs more than what is in it.
		if err := v.row(readWords, []any{voc.last}, &last, &read); err != nil {
			return search.Vocabulary{}, err
		}
		if last == nil {
			return voc.words, nil
		}
		voc.last = *last
		voc.words = voc.words.With(strings.Split(*read, " "))
	}
}

// maxKnownWords bounds the memory of knownWords to a few megabytes.
const maxKnownWords = 64 << 10

// knownWords caches stored words, so that not every word of every chain is looked
// up in the file. Words are never deleted.
type knownWords struct {
	mu    sync.Mutex // guards the field below
	words map[string]bool
}

// unknown returns the words that may not be stored yet, sorted.
func (k *knownWords) unknown(words map[string]bool) []string {
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

// add must be called after the words are committed.
func (k *knownWords) add(words map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.words == nil || len(k.words) > maxKnownWords {
		k.words = make(map[string]bool, len(words))
	}
	maps.Copy(k.words, words)
}
