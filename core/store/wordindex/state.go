package wordindex

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/search"
)

// batch is how many chains are indexed in one transaction: a second or less.
const batch = 500

// State is what there is to know about an index before it is used.
type State struct {
	// Version of the analyser that made it. A program uses only an index of its own
	// version: it neither reads nor changes one of a newer version, and marks the
	// chains that it stores and removes.
	Version int
	// Behind: chains are marked that the index does not have as they are.
	Behind bool
}

// Foreign reports whether the index is one of another version.
func (s State) Foreign() bool { return s.Version != search.Version }

// Newer reports whether a newer program made the index.
func (s State) Newer() bool { return s.Version > search.Version }

// Complete reports that there is nothing to index for this program.
func (s State) Complete() bool { return s.Newer() || !s.Foreign() && !s.Behind }

func isForeign(w Writer) (bool, error) {
	version, _, err := w.Version()
	return State{Version: version}.Foreign(), err
}

// Renew makes an index of this version of one of an earlier version, and reports whether
// it did: it empties the index and marks all chains. It continues an index that an earlier
// program did not finish.
func Renew(w Writer) (renewed bool, err error) {
	version, indexed, err := w.Version()
	if err != nil || version > search.Version {
		return false, err
	}
	if version < search.Version {
		if err := w.Clear(search.Version); err != nil {
			return false, err
		}
		return true, w.MarkAfter(0)
	}
	if indexed < 0 {
		return false, nil
	}
	return true, w.MarkAfter(indexed)
}

// CatchUp indexes the next of the marked chains, and reports whether none is left. It
// leaves an index of another version alone.
func CatchUp(w Writer) (done bool, err error) {
	if foreign, err := isForeign(w); foreign || err != nil {
		return true, err
	}
	marked, err := w.Marked(batch)
	if err != nil || len(marked) == 0 {
		return true, err
	}
	var keys []int64
	var spaces []string
	var chains []Analysed
	for _, m := range marked {
		// A program of this version may have indexed it before or since.
		if err := remove(w, m.Key); err != nil {
			return false, err
		}
		if m.Chain != nil {
			keys, spaces, chains = append(keys, m.Key), append(spaces, m.Chain.Space), append(chains, Analyse(*m.Chain))
		}
	}
	for _, a := range Additions(spaces, chains) {
		if err := a.Insert(w, keys, new(KnownWords)); err != nil {
			return false, fmt.Errorf("index protocols: %w", err)
		}
	}
	return len(marked) < batch, w.Unmark(marked[len(marked)-1].Key)
}
