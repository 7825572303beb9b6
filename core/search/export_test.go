package search

import "slices"

// Words are the distinct words of the query, in order.
func (q Query) Words() []Word { return slices.Clone(q.words) }

// Blank reports whether the query has no words.
func (q Query) Blank() bool { return q.name.exact == 0 }

// Words returns all words, sorted.
func (v Vocabulary) Words() []string { return v.merged().sorted }
