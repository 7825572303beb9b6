package search

import (
	"math"
	"math/bits"
	"strings"
	"sync"
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
	scoreExact = [...]float64{fieldTitle: 1, fieldAltTitle: 0.98, fieldSlug: 0.97, fieldTrigger: 0.98}
	scoreLoose = [...]float64{fieldTitle: 0.95, fieldAltTitle: 0.94, fieldSlug: 0.93, fieldTrigger: 0.94}
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
	f := q.find(d, s)
	defer findings.Put(f)
	if score := q.named(d); score > 0 {
		_, step := f.together(d.steps)
		return Result{Score: score, Step: step}, true
	}
	if f.coverage < minCoverage || q.filler && f.inTitle < len(q.words) {
		return Result{}, false
	}
	together, step := f.together(d.steps)
	score := partCoverage*f.coverage + partTogether*together + partTitle*f.coverage*f.titled
	return Result{Score: min(score, MaxInexact), Step: step}, true
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
			Asked: q.words[i].Text, Found: d.word(best.word), Score: math.Round(1000*best.weight*f.rarity[i]/f.total) / 1000,
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
	total     float64   // of rarity
	coverage  float64
	inTitle   int     // words of the query that the title has
	titled    float64 // share of the title's words that are asked for

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
	f.cover(d)
	return f
}

// begin makes the finding one of nothing.
func (f *finding) begin(q Query, s Stats) {
	f.looks, f.rarity = f.looks[:0], f.rarity[:0]
	f.begins, f.forgiving = [256]bool{}, false
	f.total, f.coverage, f.inTitle, f.titled = 0, 0, 0, 0
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
		f.total += f.rarity[i]
	}
}

// cover sums up what was found.
func (f *finding) cover(d Document) {
	if f.total == 0 {
		return
	}
	covered := 0.0
	for i, hits := range f.hits {
		best, inTitle := 0.0, false
		for _, h := range hits {
			best = max(best, h.weight)
			inTitle = inTitle || h.at.field() == fieldTitle
		}
		covered += f.rarity[i] * best
		if inTitle {
			f.inTitle++
		}
	}
	f.coverage = covered / f.total
	f.titled = min(1, float64(f.inTitle)/float64(max(1, d.names[fieldTitle].size)))
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
		whole += f.rarity[i] * chain
		for _, h := range hits {
			if s := h.at.step(); s < steps {
				f.sums[s] += f.rarity[i] * max(0, f.best[s]-chain)
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

// likeness says how much a word is the one looked for; 0: it is another one.
func (l *look) likeness(w *walk) (float64, string) {
	switch {
	case string(w.text) == l.Text:
		return 1, RankerWords
	case w.hasTerm(l.Term):
		return likeForm, RankerWords
	case l.Root != "" && len(w.text) >= len(l.Root) && string(w.text[:len(l.Root)]) == l.Root:
		text := string(w.text)
		if len(l.Root) >= 4 && root(text) == l.Root {
			return likeRoot, RankerWords
		}
		if strings.HasPrefix(text, l.Text) {
			return likePrefix + likePrefixMore*float64(len(l.Text))/float64(len(text)), RankerPrefix
		}
	}
	if l.typos == 0 && !l.part {
		return 0, ""
	}
	text := string(w.text)
	if l.part && strings.Contains(text, l.Text) {
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
