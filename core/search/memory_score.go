package search

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// asked is a text that is compared with protocols.
type asked struct {
	query  Query
	likes  map[uint32][]like
	may    []uint64 // a bit for each number that likes has
	rarity []float64
	vector []int8

	best [maxWords]float64 // space for score, which one goroutine calls
}

// scan scores all protocols, in their order.
func (x *Index) scan(text string, vector []float32, docs []*doc) []scored {
	a := x.ask(text, vector, docs)
	out, cosines := make([]scored, len(docs)), make([]float64, len(docs))
	for i, d := range docs {
		cosines[i] = a.cosine(d)
	}
	background := backgroundIn(cosines)
	for i, d := range docs {
		out[i] = scored{doc: d, asked: a, meaning: max(0, cosines[i]-background) / max(0.01, 1-background)}
		a.score(&out[i])
	}
	return out
}

// backgroundIn is how similar a request is to protocols that it does not mean.
func backgroundIn(cosines []float64) float64 {
	if len(cosines) < fewSamples {
		return 0
	}
	sorted := slices.Sorted(slices.Values(cosines))
	return max(0, sorted[len(sorted)/2])
}

// ask compares the words of a text with the vocabulary.
func (x *Index) ask(text string, vector []float32, docs []*doc) *asked {
	a := &asked{query: Ask(text), likes: map[uint32][]like{}, vector: unit(vector)}
	a.may = make([]uint64, len(x.numbers)/64+1)
	for i, w := range a.query.words {
		x.compare(a, i, w.matcher(false))
	}
	with := a.count(docs)
	for i, w := range a.query.words {
		if with[i] == 0 {
			x.compare(a, i, w.matcher(true))
		}
	}
	for i, w := range a.query.words {
		x.related(w.Text, func(number uint32, cosine float64) {
			a.like(number, like{i, relatedWeight * (cosine - leastRelated/2) / (1 - leastRelated/2), RankerVector, ""})
		})
	}
	n := float64(len(docs))
	for i := range a.query.words {
		with := float64(with[i])
		r := math.Log(1 + (n-with+0.5)/(with+0.5))
		if with == 0 {
			r = math.Log(1+(n+0.5)/1.5) * unknownShare
		}
		a.rarity = append(a.rarity, r)
	}
	return a
}

// compare adds the words of the vocabulary that are similar to a word of the query.
func (x *Index) compare(a *asked, i int, l look) {
	add := func(sameTerm bool) func(Numbered) {
		return func(w Numbered) {
			if likeness, ranker := l.likeness(w.Text, sameTerm); likeness > 0 {
				a.like(w.Number, like{i, likeness, ranker, w.Text})
			}
		}
	}
	x.vocabulary.ofTerm(l.Term, add(true))
	if l.Root != "" {
		x.vocabulary.startingWith(l.Root, add(false))
	}
	if l.forgiving() {
		x.vocabulary.similar(l.Word, add(false))
	}
}

func (a *asked) like(number uint32, l like) {
	for _, have := range a.likes[number] {
		if have.asked == l.asked && have.likeness >= l.likeness {
			return
		}
	}
	a.likes[number] = append(a.likes[number], l)
	a.may[number/64] |= 1 << (number % 64)
}

// explain returns the words that a score is made of.
func (x *Index) explain(f Found) []Matched {
	total := 0.0
	for _, r := range f.asked.rarity {
		total += r
	}
	best := make([]Matched, len(f.asked.rarity))
	for _, p := range f.doc.words {
		for _, l := range f.asked.likes[p.number()] {
			score := f.asked.rarity[l.asked] * l.likeness * p.weight() / total
			if score > best[l.asked].Score {
				best[l.asked] = Matched{f.asked.query.words[l.asked].Text, x.texts[p.number()], l.ranker, score}
			}
		}
	}
	return slices.DeleteFunc(best, func(m Matched) bool { return m.Score == 0 })
}

// count returns how many protocols have each word of the query.
func (a *asked) count(docs []*doc) []int {
	with := make([]int, len(a.query.words))
	seen := make([]int, len(with)) // the last protocol that had it, from 1
	for i, d := range docs {
		for _, p := range d.words {
			n := p.number()
			if a.may[n/64]&(1<<(n%64)) == 0 {
				continue
			}
			for _, l := range a.likes[n] {
				if seen[l.asked] != i+1 {
					seen[l.asked] = i + 1
					with[l.asked]++
				}
			}
		}
	}
	return with
}

// cosine is that of the nearest part of a protocol.
func (a *asked) cosine(d *doc) float64 {
	if len(a.vector) == 0 || d.width != len(a.vector) {
		return 0
	}
	best := 0
	for v := d.vectors; len(v) >= d.width; v = v[d.width:] {
		best = max(best, dot8(a.vector, v[:d.width]))
	}
	return float64(best) / (127 * 127)
}

func dot8(a, b []int8) int {
	sum := 0
	for i, x := range a[:min(len(a), len(b))] {
		sum += int(x) * int(b[i])
	}
	return sum
}

// score fills in the score of a protocol.
func (a *asked) score(s *scored) {
	d := s.doc
	if score := a.query.nameScore(Document{names: d.names}); score > 0 {
		s.score, s.name, s.words = score, NamedExactly, 1
		return
	}
	best, names := a.best[:len(a.query.words)], []saying(nil)
	clear(best)
	inTitle := uint64(0)
	for _, p := range d.words {
		n := p.number()
		if a.may[n/64]&(1<<(n%64)) == 0 {
			continue
		}
		for _, l := range a.likes[n] {
			best[l.asked] = max(best[l.asked], l.likeness*p.weight())
			if p&inName != 0 && l.ranker != RankerVector {
				if p&inHead != 0 {
					inTitle |= 1 << l.asked
				}
				if names == nil {
					names = make([]saying, len(d.names))
				}
				a.say(names, d, n, l)
			}
		}
	}
	total := 0.0
	for i, b := range best {
		s.words += a.rarity[i] * b
		total += a.rarity[i]
	}
	s.words /= max(total, 1e-9)
	if a.query.filler && bits.OnesCount64(inTitle) < len(a.query.words) {
		return
	}
	both := s.words
	if len(a.vector) > 0 {
		both = wordShare*s.words + (1-wordShare)*s.meaning
	}
	s.score = MaxUnsure * math.Pow(both, curve)
	for i := range names {
		n := d.names[i]
		if n.exact == 0 {
			continue
		}
		_, whole := names[i].share(n.size)
		if said := bits.OnesCount64(names[i].asked); whole && said*nameInside >= len(a.query.words)*(nameInside-1) {
			s.name = NamedInside
		}
	}
	if s.name == NamedInside {
		s.score = sureAlone + (MaxInexact-sureAlone)*s.score/MaxUnsure
	}
}

// say records that names have a word of the query.
func (a *asked) say(names []saying, d *doc, word uint32, l like) {
	at, _ := slices.BinarySearchFunc(d.said, word, func(s saidIn, w uint32) int { return cmp.Compare(s.word, w) })
	for ; at < len(d.said) && d.said[at].word == word; at++ {
		n := int(d.said[at].name)
		if n >= len(names) {
			continue
		}
		names[n].say(saidWord{word, l.likeness, 1})
		names[n].asked |= 1 << l.asked
		if l.likeness == 1 {
			names[n].spelled |= 1 << l.asked
		}
	}
}

// The values of Why.Name.
const (
	NamedExactly = "equal"  // the request is a name of the protocol, in any order and form of its words
	NamedInside  = "inside" // the request has a whole name of the protocol
)

// nameInside is such that a request names a protocol if all but one in nameInside of its
// telling words are of the name: what it says besides may mean another protocol.
const nameInside = 3

// rank orders protocols with equal scores: shorter titles first, then in an arbitrary
// order of the titles that is always the same.
func (d *doc) rank() uint64 { return Document{names: d.names}.Rank() }

// The constants of the score.
const (
	leastRelated  = 0.5  // cosine of two words from which one answers the other
	relatedWeight = 0.6  // of a word that means the same
	unknownShare  = 0.3  // of the rarity of a word that no protocol has
	wordShare     = 0.65 // of the score; the rest is meaning
	curve         = 0.7  // an exponent that spreads low scores, so that 0.3 is a fair threshold
)
