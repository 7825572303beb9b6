package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Stats has statistics about the words of a query in all visible chains.
type Stats struct {
	Chains int
	// With is, for each of Query.Words, how many chains have its Term or, if none
	// has, a word that completes it. Zero enables the tolerance for typing errors.
	// Estimates are good enough for large numbers.
	With []int
}

// Rarity of a word, by its index in Query.Words, is 1 if every chain has it, and
// at most 7, whatever the number of chains. A word that no chain has gets the
// middle: it distinguishes no chains, and with the weight of the rarest word it
// would hide the matches of the others.
func (s Stats) Rarity(word int) float64 {
	with := 0
	if word < len(s.With) {
		with = max(0, s.With[word])
	}
	rarity := rarity(with, max(s.Chains, with))
	if s.unknown(word) {
		return (1 + rarity) / 2
	}
	return rarity
}

// rarest is the rarity of a word that a single chain has.
func (s Stats) rarest() float64 { return rarity(1, s.Chains) }

// unknown reports that no chain has the word.
func (s Stats) unknown(word int) bool { return word >= len(s.With) || s.With[word] <= 0 }

// Weights are how much each of Query.Words counts in the coverage: its rarity,
// reduced for all but the rarest ones. A word that no chain has counts fully in a
// short query, where it shows that something else is meant, and little in a long
// one.
func (q Query) Weights(s Stats) []float64 { return q.weigh(s, nil) }

// weigh appends the weights to an empty slice.
func (q Query) weigh(s Stats, weights []float64) []float64 {
	var known [maxWords]int
	order := known[:0]
	for i, w := range q.words {
		weight := s.Rarity(i)
		switch {
		case !s.unknown(i):
		case w.last && w.short:
			weight *= unfinishedWeight
		case len(q.words) > shortQuery:
			weight = unknownWeight
		}
		weights, order = append(weights, weight), append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), strings.Compare(q.words[a].Text, q.words[b].Text))
	})
	for _, i := range order[min(len(order), heaviest):] {
		weights[i] *= lightWeight
	}
	return weights
}

// rarity of a word that this many of the chains have; at least one chain is
// assumed.
func rarity(with, chains int) float64 {
	n := float64(max(chains, 1)) + 1
	return 1 + min(1, 6/math.Log(n))*math.Log(n/float64(with+1))
}
