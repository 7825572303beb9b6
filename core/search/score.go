package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A score is how likely a chain is the one that is meant. A query that equals a
// name of the chain, or has its words in any order and form, has a fixed score:
// scoreExact, scoreLoose. Otherwise three things count: how much of one of the
// names the query contains, so that a title in the middle of a long sentence
// counts; how much of the query the chain covers, weighted by rarity; and how many
// rare words of the query the chain has, however long the query is:
//
//	share    = rarity of the words said / (that + unsaidRarity * words unsaid)
//	coverage = sum(weight * field * likeness) / sum(weight)
//	found    = sum(rarity * field * likeness) / rarity of the rarest word
//	chance   = logistic(shareWeight * share^1.5 + coverWeight * coverage + foundWeight * found^0.5 - doubt)
//	score    = max((MaxUnsure - saidScore) * chance, textScore * step coverage) + saidScore * share
//
// Step coverage is the coverage of the best step alone. It finds a few words that
// occur together in a text.
//
// Only chains whose whole name is in the query score more than MaxUnsure, because
// requests for something that is not stored reach any other score, too.
//
// The constants were fitted to the half of the queries of testdata/search that is
// not held out; see docs/design/search.md.
const (
	shareWeight  = 9.0
	coverWeight  = 4.5
	foundWeight  = 4.5
	doubt        = 10.6
	textScore    = 0.51 // for words in one step
	saidScore    = 0.05 // for a name, so that more of a title ranks higher
	unsaidRarity = 3.5  // rarity assumed for words of names that the query lacks

	heaviest      = 4    // number of words with full weight
	lightWeight   = 0.15 // factor for the others
	shortQuery    = 4    // words; longer queries contain irrelevant words
	unknownWeight = 2.0  // of a word that no chain has, in longer queries

	unfinishedWeight = 0.3 // factor for such a word if it is typed last and too short to be completed
)

const (
	// MaxInexact is the highest score of a chain whose name is not the query.
	MaxInexact = 0.83
	// MaxUnsure is the highest score of a chain whose whole name is not in the
	// query.
	MaxUnsure = sureAlone - 0.001

	// minCoverage is the least share of the query, or of a name, for a match. Below
	// it, only insignificant words match.
	minCoverage = 0.1
)

var (
	scoreExact = [...]float64{fieldTitle: 1, fieldAltTitle: 0.98, fieldSlug: 0.97, fieldTrigger: 0.98}
	scoreLoose = [...]float64{fieldTitle: 0.95, fieldAltTitle: 0.94, fieldSlug: 0.93, fieldTrigger: 0.94}
)

// The rankers in explanations.
const (
	RankerWords  = "words"
	RankerPrefix = "prefix"
	RankerTypo   = "typo"
	RankerVector = "vector"
)

// Result is how well a chain answers a query.
type Result struct {
	Score float64 // above 0, at most 1
	Step  int     // index of the best step; 0 if the whole chain matches
}

// Match is one reason for a score.
type Match struct {
	Ranker string
	Field  string
	Step   int
	Asked  string // a word of the query
	Found  string // the word of the chain
	Score  float64
}

// evidence has the parts of the score of a chain.
type evidence struct {
	covered  float64 // share of the query that is somewhere in the chain
	found    float64 // sum over its words; a word of maximal rarity counts 1
	together float64 // share of it that the best step and the fields of the chain have
	step     int     // the best one
	inTitle  int     // words of the query that the title has
	said     float64 // share of a name that the query has
	whole    bool    // the query has a whole name
}

func (e evidence) score() float64 {
	score := max((MaxUnsure-saidScore)*e.chance(), textScore*e.together) + saidScore*e.said
	if e.whole {
		return sureAlone + (MaxInexact-sureAlone)*score/MaxUnsure
	}
	return score
}

// chance is the probability that the chain is meant.
func (e evidence) chance() float64 {
	z := shareWeight*e.said*math.Sqrt(e.said) + coverWeight*e.covered + foundWeight*math.Sqrt(e.found) - doubt
	return 1 / (1 + math.Exp(-z))
}

// Explain returns the reasons for the score of the chain: the best place of each
// word of the query that it has.
func (x *Scorer) Explain(d Document) []Match {
	f := x.find(d)
	defer findings.Put(f)
	var why []Match
	for i, hits := range f.hits {
		if len(hits) == 0 {
			continue
		}
		best := slices.MinFunc(hits, func(a, b hit) int {
			return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text))
		})
		why = append(why, Match{
			Ranker: best.ranker, Field: fieldName[best.at.field()], Step: best.at.step(),
			Asked: x.query.words[i].Text, Found: best.text, Score: math.Round(1000*best.weight*x.weights[i]/x.total) / 1000,
		})
	}
	return why
}

// nameScore returns the score of a chain whose name is the query, or 0.
func (q Query) nameScore(d Document) float64 {
	if q.name.exact == 0 {
		return 0
	}
	best := 0.0
	for i, n := range d.names {
		f := min(field(i), fieldTrigger) //nolint:gosec // a small number
		switch {
		case n.exact == q.name.exact, n.exact != 0 && n.alike == q.name.alike:
			best = max(best, scoreExact[f])
		case n.exact != 0 && n.loose == q.name.loose:
			best = max(best, scoreLoose[f])
		}
	}
	return best
}
