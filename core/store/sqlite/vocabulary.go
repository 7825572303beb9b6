package sqlite

import (
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/search"
)

// vocabulary is all words that stand in chains of any space, as this process
// knows them. It only leads to terms to look up, which are looked up in the
// spaces of the caller.
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
