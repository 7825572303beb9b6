package search

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
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

// How much a word of a chain is the one asked for.
const (
	likeForm   = 0.97 // another form of it
	likeRoot   = 0.9  // another form by the rules of Polish
	likePrefix = 0.8  // it goes on after what was typed; up to likePrefixMore for the share that was
	likePart   = 0.6  // it has the word inside
	likeTypo   = 0.85 // one typing error away
	likeTypos  = 0.75 // two

	likePrefixMore = 0.1

	shortestBeginning = 4 // letters of a word that is completed
	shortestPart      = 5 // letters of a word that is looked for inside others
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
	rarity := rarity(with, max(s.Chains, with))
	if s.unknown(word) {
		return (1 + rarity) / 2
	}
	return rarity
}

// rarest is the rarity of a word that a single chain has.
func (s Stats) rarest() float64 { return rarity(1, s.Chains) }

// rarity of a word that so many chains have, of at least one.
func rarity(with, chains int) float64 {
	n := float64(max(chains, 1)) + 1
	return 1 + min(1, 6/math.Log(n))*math.Log(n/float64(with+1))
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

// finding is where a chain has the words of a query.
type finding struct {
	looks  []look    // by word of the query
	begins [256]bool // how they begin
	// forgiving: of one of them typing errors are forgiven.
	forgiving bool
	hits      [][]hit   // likewise
	rarity    []float64 // likewise
	weights   []float64 // likewise
	total     float64   // of weights
	rarest    float64   // of a word that a single chain has

	names      []saying  // by name
	sums, best []float64 // by step; zero but while they are used
}

// findings are used again: many chains are judged for one query.
var findings = sync.Pool{New: func() any { return &finding{} }}

// hit is one place of one word.
type hit struct {
	at     place
	weight float64
	ranker string
	word   int // its number in the document
}

func (q Query) find(d Document, s Stats) *finding {
	f := findings.Get().(*finding)
	f.begin(q, s)
	w := d.walk()
	for number := 0; w.next(); number++ {
		if !f.forgiving && (len(w.text) == 0 || !f.begins[w.text[0]]) {
			continue // most words end here: a word, its term and its root begin alike
		}
		for i := range f.looks {
			like, ranker := f.looks[i].likeness(&w)
			if like == 0 {
				continue
			}
			for p := range w.each() {
				f.hits[i] = append(f.hits[i], hit{p, like * fieldWeight[p.field()], ranker, number})
			}
		}
	}
	return f
}

// begin makes the finding one of nothing.
func (f *finding) begin(q Query, s Stats) {
	f.looks, f.rarity = f.looks[:0], f.rarity[:0]
	f.begins, f.forgiving = [256]bool{}, false
	for len(f.hits) < len(q.words) {
		f.hits = append(f.hits, nil)
	}
	f.hits = f.hits[:len(q.words)]
	for i, word := range q.words {
		f.hits[i] = f.hits[i][:0]
		f.looks = append(f.looks, word.look(s.unknown(i)))
		f.begins[word.Text[0]], f.begins[word.Term[0]] = true, true
		f.forgiving = f.forgiving || s.unknown(i)
		f.rarity = append(f.rarity, s.Rarity(i))
	}
	f.weights, f.total, f.rarest = q.weigh(s, f.weights[:0]), 0, s.rarest()
	for _, w := range f.weights {
		f.total += w
	}
}

// Weights are how much each of Query.Words counts in what a chain covers: its
// rarity, and little for all but the rarest ones. A word that no chain has
// counts fully in a short query, where it says that something else is meant,
// and little in a long one.
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

// saying is what a query says of a name.
type saying struct {
	words []saidWord
	next  int // word of the query that would go on
	row   int // words that follow each other, in the form of the name
}

// saidWord is a word of a name.
type saidWord struct {
	number int // in the document
	like   float64
	rarity float64
}

// say adds a word, the best of those of the query that are it.
func (s *saying) say(w saidWord) {
	for i, have := range s.words {
		if have.number == w.number {
			if w.like > have.like {
				s.words[i] = w
			}
			return
		}
	}
	s.words = append(s.words, w)
}

// share is how much of a name of so many words is said, and whether that is
// the whole name, beyond doubt.
func (s *saying) share(size int) (share float64, whole bool) {
	told, alike := 0.0, 0.0
	for _, w := range s.words {
		told += w.rarity * w.like
		alike += w.like
	}
	if told == 0 {
		return 0, false
	}
	unsaid := max(0, float64(size)-alike)
	whole = len(s.words) >= size && unsaid <= (1-likeRoot)*float64(size)+1e-9 && (size >= 3 || size == 2 && s.row >= 2)
	return told / (told + unsaidRarity*unsaid), whole
}

// evidence sums up what was found.
func (f *finding) evidence(d Document) evidence {
	var e evidence
	if f.total == 0 {
		return e
	}
	f.beginNames(len(d.names))
	for i, hits := range f.hits {
		best, inTitle := 0.0, false
		for _, h := range hits {
			best = max(best, h.weight)
			if h.at.field().names() {
				inTitle = inTitle || h.at.field() == fieldTitle
				f.say(i, h)
			}
		}
		e.covered += f.weights[i] * best / f.total
		e.found += f.rarity[i] * best / f.rarest
		if inTitle {
			e.inTitle++
		}
	}
	for i, n := range d.names {
		share, whole := f.names[i].share(n.size)
		e.said, e.whole = max(e.said, share), e.whole || whole
	}
	e.together, e.step = f.together(d.steps)
	return e
}

// say notes that a name has a word of the query.
func (f *finding) say(word int, h hit) {
	like := h.weight / fieldWeight[h.at.field()]
	s := &f.names[h.at.name()]
	s.say(saidWord{h.word, like, f.rarity[word]})
	if like == 1 {
		if s.next != word {
			s.row = 0
		}
		s.row, s.next = s.row+1, word+1
	}
}

func (f *finding) beginNames(n int) {
	for len(f.names) < n {
		f.names = append(f.names, saying{})
	}
	for i := range f.names[:n] {
		f.names[i] = saying{words: f.names[i].words[:0]}
	}
}

// together returns how much of the query the best step covers with what the
// chain as a whole has; the first of equals.
func (f *finding) together(steps int) (coverage float64, step int) {
	if f.total == 0 {
		return 0, 0
	}
	if more := steps - len(f.sums); more > 0 {
		f.sums, f.best = append(f.sums, make([]float64, more)...), append(f.best, make([]float64, more)...)
	}
	whole := 0.0
	for i, hits := range f.hits {
		chain := 0.0
		for _, h := range hits {
			if s := h.at.step(); h.at.field().ofChain() {
				chain = max(chain, h.weight)
			} else if s < steps {
				f.best[s] = max(f.best[s], h.weight)
			}
		}
		whole += f.weights[i] * chain
		for _, h := range hits {
			if s := h.at.step(); s < steps {
				f.sums[s] += f.weights[i] * max(0, f.best[s]-chain)
				f.best[s] = 0
			}
		}
	}
	best := 0.0
	for s, sum := range f.sums[:steps] {
		if sum > best {
			best, step = sum, s
		}
		f.sums[s] = 0
	}
	return (whole + best) / f.total, step
}

// look is one word of a query, ready to be compared.
type look struct {
	Word
	typos int  // forgiven
	part  bool // it may be a part of another word: no chain has it
}

func (w Word) look(forgiving bool) look {
	l := look{Word: w}
	if forgiving {
		l.typos, l.part = Typos(w.Text), !w.short
	}
	return l
}

// likeness says how much a word is the one looked for; 0: it is another one.
func (l *look) likeness(w *walk) (float64, string) {
	switch {
	case string(w.text) == l.Text:
		return 1, RankerWords
	case w.hasTerm(l.Term):
		return likeForm, RankerWords
	case l.Root != "" && len(w.text) >= len(l.Root) && string(w.text[:len(l.Root)]) == l.Root:
		text := string(w.text)
		if l.formOf(text) {
			return likeRoot, RankerWords
		}
		if (l.Unfinished || l.part) && strings.HasPrefix(text, l.Text) {
			return likePrefix + likePrefixMore*float64(len(l.Text))/float64(len(text)), RankerPrefix
		}
	}
	if l.typos == 0 && !l.part {
		return 0, ""
	}
	text := string(w.text)
	if l.part && l.inside(text) {
		return likePart, RankerTypo
	}
	if l.typos > 0 {
		return l.mistyped(text), RankerTypo
	}
	return 0, ""
}

func (l *look) mistyped(found string) float64 {
	switch l.errors(found) {
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
	changed := bits.OnesCount32(lettersOf(asked) ^ lettersOf(found))
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
