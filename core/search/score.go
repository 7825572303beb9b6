package search

import (
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// A score says how much of the query a chain covers. Each word of the query
// weighs as much as it is rare, and counts with the weight of the best field
// that has it and of how much the word there is the one asked for:
//
//	coverage = sum(rarity * field * likeness) / sum(rarity)
//	score    = 0.78 coverage + 0.08 coverage of the best step + 0.03 coverage * share of the title's words asked for
//
// so that a match is at most 0.89 and never looks like a title asked for: that
// is 1, and the title's words in another order or form 0.95. The alternative
// title and the slug count a little less than the title.
const (
	partCoverage = 0.78
	partTogether = 0.08
	partTitle    = 0.03

	// MaxInexact is the highest score of a chain that is not asked for by name.
	MaxInexact = partCoverage + partTogether + partTitle

	// minCoverage is the least a chain must cover to be found at all. Below
	// it, only words that say little are there.
	minCoverage = 0.1
)

var (
	scoreExact = [named]float64{1, 0.98, 0.97}
	scoreLoose = [named]float64{0.95, 0.94, 0.93}
)

// How much a word of a chain is the one asked for.
const (
	likeForm   = 0.97 // another form of it
	likeRoot   = 0.9  // another form by the rules of Polish
	likePrefix = 0.75 // it goes on after what was typed; up to likePrefixMore for the share that was
	likePart   = 0.6  // it has the word inside
	likeTypo   = 0.75 // one typing error away
	likeTypos  = 0.65 // two

	likePrefixMore = 0.1

	shortestPart = 5 // letters of a word that is looked for inside others
)

// The rankers that explanations name.
const (
	RankerWords  = "words"
	RankerPrefix = "prefix"
	RankerTypo   = "typo"
	RankerVector = "vector"
)

// Stats is what is known of the words of a query in all chains that can be seen.
type Stats struct {
	Chains int
	// With is, for each of Query.Words, how many chains have its Term, or, if
	// none has, a word that completes it. Zero allows for typing errors.
	// Estimates are fine for large numbers.
	With []int
}

// Rarity of a word, by its place in Query.Words, is 1 when every chain has it,
// and at most 7, whatever the number of chains. A word that no chain has stands
// in the middle: it tells no chain from another, and counted like the rarest of
// all it would hide what the other words find.
func (s Stats) Rarity(word int) float64 {
	with := 0
	if word < len(s.With) {
		with = max(0, s.With[word])
	}
	chains := float64(max(s.Chains, with, 1))
	more := min(1, 6/math.Log(chains+1)) * math.Log((chains+1)/float64(with+1))
	if s.unknown(word) {
		more /= 2
	}
	return 1 + more
}

// unknown: no chain has the word.
func (s Stats) unknown(word int) bool { return word >= len(s.With) || s.With[word] <= 0 }

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
	found := q.find(d, s)
	if score := q.named(d); score > 0 {
		_, step := found.together(d.steps)
		return Result{Score: score, Step: step}, true
	}
	if found.coverage < minCoverage || q.filler && found.inTitle < len(q.words) {
		return Result{}, false
	}
	together, step := found.together(d.steps)
	score := partCoverage*found.coverage + partTogether*together + partTitle*found.coverage*found.titled
	return Result{Score: min(score, MaxInexact), Step: step}, true
}

// Explain returns why the chain has its score: for each word of the query that
// it has, the best place.
func (q Query) Explain(d Document, s Stats) []Match {
	found := q.find(d, s)
	var why []Match
	for i, hits := range found.hits {
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
			Asked: q.words[i].Text, Found: best.text, Score: best.weight * found.rarity[i] / found.total,
		})
	}
	return why
}

// named is the score of a chain that is asked for by a name; 0: it is not.
func (q Query) named(d Document) float64 {
	if q.name.exact == 0 {
		return 0
	}
	best := 0.0
	for i, n := range d.names {
		switch {
		case n.exact == q.name.exact:
			best = max(best, scoreExact[i])
		case n.exact != 0 && n.loose == q.name.loose:
			best = max(best, scoreLoose[i])
		}
	}
	return best
}

// finding is where a chain has the words of a query.
type finding struct {
	hits     [][]hit   // by word of the query
	rarity   []float64 // likewise
	total    float64   // of rarity
	coverage float64
	inTitle  int     // words of the query that the title has
	titled   float64 // share of the title's words that are asked for
}

// hit is one place of one word.
type hit struct {
	at     place
	weight float64
	ranker string
	text   string
}

func (q Query) find(d Document, s Stats) finding {
	f := finding{hits: make([][]hit, len(q.words)), rarity: make([]float64, len(q.words))}
	covered := 0.0
	for i, w := range q.words {
		f.rarity[i] = s.Rarity(i)
		f.total += f.rarity[i]
		best, inTitle := 0.0, false
		look := w.look(s.unknown(i))
		for _, e := range d.entries {
			like, ranker := look.likeness(&e)
			if like == 0 {
				continue
			}
			for _, p := range e.places {
				h := hit{p, like * fieldWeight[p.field()], ranker, e.text}
				f.hits[i] = append(f.hits[i], h)
				best = max(best, h.weight)
				inTitle = inTitle || p.field() == fieldTitle
			}
		}
		covered += f.rarity[i] * best
		if inTitle {
			f.inTitle++
		}
	}
	if f.total > 0 {
		f.coverage = covered / f.total
		f.titled = min(1, float64(f.inTitle)/float64(max(1, d.names[fieldTitle].size)))
	}
	return f
}

// together returns how much of the query the best step covers with what the
// chain as a whole has; the first of equals.
func (f finding) together(steps int) (coverage float64, step int) {
	if f.total == 0 {
		return 0, 0
	}
	whole := 0.0
	sums := map[int]float64{}
	for i, hits := range f.hits {
		chain, byStep := 0.0, map[int]float64{}
		for _, h := range hits {
			if h.at.field().ofChain() {
				chain = max(chain, h.weight)
				continue
			}
			byStep[h.at.step()] = max(byStep[h.at.step()], h.weight)
		}
		whole += f.rarity[i] * chain
		for s, w := range byStep {
			sums[s] += f.rarity[i] * max(0, w-chain)
		}
	}
	best := 0.0
	for s, sum := range sums {
		if s < steps && (sum > best || sum == best && sum > 0 && s < step) {
			best, step = sum, s
		}
	}
	return (whole + best) / f.total, step
}

// look is one word of a query, ready to be compared.
type look struct {
	Word
	typos int // forgiven
	part  bool
	runes int
}

func (w Word) look(forgiving bool) look {
	l := look{Word: w, runes: utf8.RuneCountInString(w.Text)}
	if forgiving {
		l.typos, l.part = Typos(w.Text), l.runes >= shortestPart
	}
	return l
}

// likeness says how much an entry is the word; 0: it is another one.
func (l *look) likeness(e *entry) (float64, string) {
	switch {
	case e.text == l.Text:
		return 1, RankerWords
	case e.term == l.Term:
		return likeForm, RankerWords
	case l.Root != "" && strings.HasPrefix(e.text, l.Root):
		if len(l.Root) >= 4 && root(e.text) == l.Root {
			return likeRoot, RankerWords
		}
		if strings.HasPrefix(e.text, l.Text) {
			return likePrefix + likePrefixMore*float64(len(l.Text))/float64(len(e.text)), RankerPrefix
		}
	}
	if l.part && strings.Contains(e.text, l.Text) {
		return likePart, RankerTypo
	}
	if l.typos > 0 {
		return l.mistyped(e), RankerTypo
	}
	return 0, ""
}

func (l *look) mistyped(e *entry) float64 {
	switch l.errors(e.text) {
	case 1:
		return likeTypo
	case 2:
		return likeTypos
	}
	return 0
}

// errors is the number of typing errors in the word if it should be the found
// one, or one in another form; 0: it should not.
func (w Word) errors(found string) int {
	if n := mistyped(w.Text, found); n > 0 {
		return n
	}
	if w.Root == w.Text || len(w.Root) < 4 || !strings.HasPrefix(found, w.Root[:2]) {
		return 0 // too much would have to be wrong at once
	}
	return mistyped(w.Root, root(found))
}

// mistyped returns how many typing errors make the asked word the found one;
// 0: it is not a mistyped form of it. The first letter of a short word is
// taken to be right.
func mistyped(asked, found string) int {
	// An error changes at most two letters of the set. Most words end here.
	changed := bits.OnesCount32(letters(asked) ^ letters(found))
	if changed > 4 {
		return 0
	}
	limit := min(Typos(asked), Typos(found))
	if limit == 0 || changed > 2*limit || len(asked) < 6 && asked[0] != found[0] {
		return 0
	}
	n := Distance(asked, found, limit)
	if n > limit {
		return 0
	}
	return n
}

// letters is the set of a word's letters, as far as 32 bits tell them apart.
func letters(word string) uint32 {
	var set uint32
	for i := range len(word) {
		set |= 1 << (word[i] & 31)
	}
	return set
}
