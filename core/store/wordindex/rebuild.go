package wordindex

import (
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/search"
)

// batch is how many chains are in memory while the index is made.
const batch = 500

// ErrVersion reports an index that a program with another version of core/search has
// made while this one was running.
var ErrVersion = errors.New("another version of this program made the search index")

func checkVersion(version int, err error) error {
	if err == nil && version != search.Version {
		err = ErrVersion
	}
	return err
}

// Rebuild makes the index of all chains, in the transaction of the Writer, if the stored
// one has another version, and reports whether it did.
func Rebuild(w Writer) (rebuilt bool, err error) {
	if version, err := w.Version(); err != nil || version == search.Version {
		return false, err
	}
	if err := w.Clear(search.Version); err != nil {
		return false, err
	}
	for last := int64(0); ; {
		stored, err := w.Chains(last, batch)
		if err != nil || len(stored) == 0 {
			return true, err
		}
		keys, spaces, chains := make([]int64, len(stored)), make([]string, len(stored)), make([]Analysed, len(stored))
		for i, s := range stored {
			keys[i], spaces[i], chains[i] = s.Key, s.Chain.Space, Analyse(s.Chain)
		}
		for _, a := range Additions(spaces, chains) {
			if err := a.Insert(w, keys, new(KnownWords)); err != nil {
				return false, fmt.Errorf("index protocols: %w", err)
			}
		}
		last = keys[len(keys)-1]
	}
}
