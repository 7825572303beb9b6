package search

import (
	"math"
)

// A score says how likely a chain is the one that somebody asks for. A name that
// is asked for as it is, or with its words in any order and form, has a score of
// its own: scoreExact, scoreLoose. Otherwise three things count: how much of one
// of the chain's names the query says, so that a title in the middle of a long
// sentence is heard; how much of the query the chain covers, where the rarest
// words weigh most; and how many rare words of the query the chain has, however
// long the query is:
//
//	share    = rarity of the words said / (that + unsaidRarity * words unsaid)
//	coverage = sum(weight * field * likeness) / sum(weight)
//	found    = sum(rarity * field * likeness) / rarity of the rarest word
//	chance   = logistic(shareWeight * share^1.5 + coverWeight * coverage + foundWeight * found^0.5 - doubt)
//	score    = max((MaxUnsure - saidScore) * chance, textScore * step coverage) + saidScore * share
//
// Step coverage is the coverage of the best step alone. It finds a few words that
// stand together in a text.
//
// Only a chain of which a whole name is said scores more than MaxUnsure, because
// any other score is also reached by requests for something that is not stored.
//
// The constants were fitted to that half of the queries of testdata/search that is
// not held out; decision 64 says how.
const (
	shareWeight  = 9.0
	coverWeight  = 4.5
	foundWeight  = 4.5
	doubt        = 10.6
	textScore    = 0.51 // of what stands together
	saidScore    = 0.05 // of a name, so that more of a title ranks higher
	unsaidRarity = 3.5  // taken for the words of names that are not asked for

	heaviest      = 4    // words that weigh fully
	lightWeight   = 0.15 // of the others, as a share
	shortQuery    = 4    // words; longer ones contain words that say nothing here
	unknownWeight = 2.0  // of a word that no chain has, in longer ones

	unfinishedWeight = 0.3 // of such a word that is typed last and too short to be completed, as a share
)

const (
	// MaxInexact is the highest score of a chain that is not asked for by name.
	MaxInexact = 0.83
	// MaxUnsure is the highest score of a chain of which no whole name is said.
	MaxUnsure = sureAlone - 0.001

	// minCoverage is the least share of the query, or of a name, for a match. Below
	// it, only words that say little are there.
	minCoverage = 0.1
)

var (
	scoreExact = [...]float64{fieldTitle: 1, fieldAltTitle: 0.98, fieldSlug: 0.97, fieldTrigger: 0.98}
	scoreLoose = [...]float64{fieldTitle: 0.95, fieldAltTitle: 0.94, fieldSlug: 0.93, fieldTrigger: 0.94}
)

// The rankers that explanations name.
const (
	RankerWords  = "words"
	RankerPrefix = "prefix"
	RankerTypo   = "typo"
	RankerVector = "vector"
)

// Result is how well a chain answers a query.
type Result struct {
	Score float64 // above 0, at most 1
	Step  int     // index of the step that answers best; 0 when it is the chain as a whole
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

// Score judges a chain, and reports whether it is a match at all.
func (q Query) Score(d Document, s Stats) (Result, bool) {
	f := q.find(d, s)
	defer findings.Put(f)
	if score := q.named(d); score > 0 {
		_, step := f.together(d.steps)
		return Result{Score: score, Step: step}, true
	}
	e := f.evidence(d)
	if max(e.covered, e.said) < minCoverage || q.filler && e.inTitle < len(q.words) {
		return Result{}, false
	}
	return Result{Score: e.score(), Step: e.step}, true
}

// evidence is what the score of a chain is made of.
type evidence struct {
	covered  float64 // share of the query that stands somewhere in the chain
	found    float64 // how many of its words do; a word as rare as can be counts 1
	together float64 // share of it that the best step has with what belongs to all steps
	step     int     // the best one
	inTitle  int     // words of the query that the title has
	said     float64 // share of a name that the query says
	whole    bool    // it says a name from its first word to its last
}

func (e evidence) score() float64 {
	score := max((MaxUnsure-saidScore)*e.chance(), textScore*e.together) + saidScore*e.said
	if e.whole {
		return sureAlone + (MaxInexact-sureAlone)*score/MaxUnsure
	}
	return score
}

// chance is how likely somebody who asks so means the chain.
func (e evidence) chance() float64 {
	z := shareWeight*e.said*math.Sqrt(e.said) + coverWeight*e.covered + foundWeight*math.Sqrt(e.found) - doubt
	return 1 / (1 + math.Exp(-z))
}

// Explain returns why the chain has its score: for each word of the query that
// it has, the best place.
func (q Query) Explain(d Document, s Stats) []Match {
	f := q.find(d, s)
	defer findings.Put(f)
	var why []Match
	for i, hits := range f.hits {
		if len(hits) == 0 {
			continue
		}
		best := hits[0]
		for _, h := range hits[1:] {
			if h.weight > best.weight || h.weight == best.weight && h.at < best.at {
				best = h
			}
		}
		why = append(why, Match{
			Ranker: best.ranker, Field: fieldName[best.at.field()], Step: best.at.step(),
			Asked: q.words[i].Text, Found: d.word(best.word), Score: math.Round(1000*best.weight*f.weights[i]/f.total) / 1000,
		})
	}
	return why
}

// word returns a word by its number.
func (d Document) word(number int) string {
	w := d.walk()
	for range number + 1 {
		w.next()
	}
	return string(w.text)
}

// named is the score of a chain that is asked for by a name; 0: it is not.
func (q Query) named(d Document) float64 {
	if q.name.exact == 0 {
		return 0
	}
	best := 0.0
	for i, n := range d.names {
		f := min(field(i), fieldTrigger) //nolint:gosec // a small number
		switch {
		case n.exact == q.name.exact:
			best = max(best, scoreExact[f])
		case n.exact != 0 && n.loose == q.name.loose:
			best = max(best, scoreLoose[f])
		}
	}
	return best
}
