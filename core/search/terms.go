package search

import (
	"strconv"
)

// The prefixes of terms that are not plain words. No word has an underscore.
const (
	isExact = "x_" // hash of a name, or of what looks like it
	isLoose = "y_" // hash of the words of a name in any order and form
)

func (n name) terms() []string {
	if n.exact == 0 {
		return nil
	}
	terms := []string{isExact + strconv.FormatUint(n.exact, 36), isLoose + strconv.FormatUint(n.loose, 36)}
	if n.alike != n.exact {
		terms = append(terms, isExact+strconv.FormatUint(n.alike, 36))
	}
	return terms
}

// Words returns the distinct words of the chain as they are written, folded and
// sorted.
func (a Analysis) Words() []string {
	words := make([]string, len(a.entries))
	for i, e := range a.entries {
		words[i] = e.text
	}
	return words
}
