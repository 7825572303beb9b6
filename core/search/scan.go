package search

import (
	"cmp"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// asked is a text that is compared with protocols.
type asked struct {
	query  Query
	at     []uint16 // in likes, by number; 0: no word of the query is like it
	likes  [][]like
	rarity []float64
	total  float64 // of rarity
	vector []int8
	meant  bool // meanings are compared
	model  bool // an embedding model knows them
}

// like is a word of the vocabulary that is similar to one of the query.
type like struct {
	asked    int // word of the query
	likeness float64
	ranker   string
	text     string
}

// scan scores all protocols, in their order.
func (x *Index) scan(s said, docs []*doc) []scored {
	a := x.ask(s.text, s.vector)
	a.model = s.model
	met, with := a.meet(docs)
	if x.forgive(a, with) {
		met, _ = a.meet(docs)
	}
	a.weigh(with, len(docs))
	out := make([]scored, len(docs))
	cosines, background := a.cosines(s.near, docs)
	inParallel(len(docs), func(from, to int) {
		c := newComparison(a)
		for i := from; i < to; i++ {
			out[i] = scored{doc: docs[i], asked: a, meaning: max(0, cosines[i]-background) / max(0.01, 1-background)}
			c.score(&out[i], met[i])
		}
	})
	return out
}

// cosines returns those of the nearest parts of the protocols, and the background.
func (a *asked) cosines(near *Near, docs []*doc) (cosines []float64, background float64) {
	cosines = make([]float64, len(docs))
	if near == nil {
		inParallel(len(docs), func(from, to int) {
			for i := from; i < to; i++ {
				cosines[i] = a.cosine(docs[i])
			}
		})
		return cosines, backgroundIn(cosines)
	}
	a.meant = true
	best := make(map[[2]string]float64, len(near.Found))
	for _, n := range near.Found {
		key := [2]string{n.Space, n.ChainID}
		if n.Cosine <= 1 { // and a number
			best[key] = max(best[key], n.Cosine)
		}
	}
	for i, d := range docs {
		cosines[i] = best[[2]string{d.space, d.chainID}]
	}
	return cosines, backgroundIn(near.Random)
}

// inParallel calls do for ranges of 0..n.
func inParallel(n int, do func(from, to int)) {
	const least = 1024 // for which another goroutine pays
	parts := max(1, min(runtime.GOMAXPROCS(0), n/least))
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() { do(part*n/parts, (part+1)*n/parts) })
	}
	all.Wait()
}

// backgroundIn is how similar a request is to protocols that it does not mean.
func backgroundIn(cosines []float64) float64 {
	if len(cosines) < fewSamples {
		return 0
	}
	sample := make([]float64, 0, 2*maxSamples)
	for i := 0; i < len(cosines); i += max(1, len(cosines)/maxSamples) {
		sample = append(sample, cosines[i])
	}
	slices.Sort(sample)
	return max(0, sample[len(sample)/2])
}

// maxSamples is how many protocols tell the background.
const maxSamples = 1024

// ask compares the words of a text with the vocabulary.
func (x *Index) ask(text string, vector []float32) *asked {
	a := &asked{query: Ask(text), vector: unit(vector), at: make([]uint16, len(x.numbers)), likes: make([][]like, 1, 64)}
	a.meant = len(a.vector) > 0
	for i, w := range a.query.words {
		x.compare(a, i, w.matcher(false))
	}
	for i, w := range a.query.words {
		x.related(w.Text, func(number uint32, cosine float64) {
			a.like(number, like{i, cosine * cosine * cosine, RankerVector, ""})
		})
	}
	return a
}

// forgive looks for typing errors in the words that no protocol has.
func (x *Index) forgive(a *asked, with []int) bool {
	forgiven := false
	for i, w := range a.query.words {
		if with[i] == 0 {
			x.compare(a, i, w.matcher(true))
			forgiven = true
		}
	}
	return forgiven
}

// weigh makes the rarity of each word from how many of n protocols have it, as in BM25.
func (a *asked) weigh(with []int, n int) {
	a.rarity = make([]float64, len(with))
	for i, with := range with {
		with := float64(max(with, 1))
		a.rarity[i] = math.Log(1 + (float64(n)-with+0.5)/(with+0.5))
		a.total += a.rarity[i]
	}
	a.total = max(a.total, 1e-9)
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
	at := a.at[number]
	if at == 0 {
		if len(a.likes) > math.MaxUint16 {
			return
		}
		at = uint16(len(a.likes)) //nolint:gosec // checked above
		a.at[number] = at
		a.likes = append(a.likes, nil)
	}
	for i, have := range a.likes[at] {
		if have.asked == l.asked {
			if have.likeness < l.likeness {
				a.likes[at][i] = l
			}
			return
		}
	}
	a.likes[at] = append(a.likes[at], l)
}

// meet returns the words of each protocol that are like words of the query, and how many
// protocols have each word of the query, typing errors and meaning apart.
func (a *asked) meet(docs []*doc) (met [][]posted, with []int) {
	met, with = make([][]posted, len(docs)), make([]int, len(a.query.words))
	var counting sync.Mutex // guards with
	inParallel(len(docs), func(from, to int) {
		var room []posted
		counts, seen := make([]int, len(with)), make([]int, len(with)) // seen: the last protocol that had it, from 1
		for i := from; i < to; i++ {
			start := len(room)
			for _, p := range docs[i].words {
				at := a.at[p.number()]
				if at == 0 {
					continue
				}
				room = append(room, p)
				for _, l := range a.likes[at] {
					if seen[l.asked] != i+1 && l.ranker != RankerVector {
						seen[l.asked] = i + 1
						counts[l.asked]++
					}
				}
			}
			met[i] = room[start:len(room):len(room)]
		}
		counting.Lock()
		defer counting.Unlock()
		for i, n := range counts {
			with[i] += n
		}
	})
	return met, with
}

// explain returns the words that a score is made of.
func (x *Index) explain(f Found) []Matched {
	best := make([]Matched, len(f.asked.rarity))
	for _, p := range f.doc.words {
		for _, l := range f.asked.likes[f.asked.at[p.number()]] {
			score := f.asked.rarity[l.asked] * l.likeness * p.weight() / f.asked.total
			if score > best[l.asked].Score {
				best[l.asked] = Matched{f.asked.query.words[l.asked].Text, x.texts[p.number()], l.ranker, score}
			}
		}
	}
	return slices.DeleteFunc(best, func(m Matched) bool { return m.Score == 0 })
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

// comparison has space for the scores that one goroutine makes.
type comparison struct {
	*asked
	best  []float64 // by word of the query
	names []saying  // by name of the protocol
}

func newComparison(a *asked) *comparison {
	return &comparison{asked: a, best: make([]float64, len(a.query.words))}
}

// score fills in the score of a protocol that has these words.
func (c *comparison) score(s *scored, met []posted) {
	d := s.doc
	if score := c.query.nameScore(d.names); score > 0 {
		s.score, s.name, s.words = score, NamedExactly, 1
		return
	}
	clear(c.best)
	inTitle, named := uint64(0), false
	for _, p := range met {
		for _, l := range c.likes[c.at[p.number()]] {
			c.best[l.asked] = max(c.best[l.asked], l.likeness*p.weight())
			if p&inName != 0 && l.ranker != RankerVector {
				if p&inHead != 0 {
					inTitle |= 1 << l.asked
				}
				if !named {
					named = true
					c.beginNames(len(d.names))
				}
				c.say(d, p.number(), l)
			}
		}
	}
	for i, b := range c.best {
		s.words += c.rarity[i] * b / c.total
	}
	if c.query.filler && bits.OnesCount64(inTitle) < len(c.query.words) {
		return
	}
	both := s.words
	if c.meant {
		both = wordShare*s.words + (1-wordShare)*s.meaning
	}
	if c.model {
		both = max(both, s.meaning)
	}
	s.score = MaxUnsure * math.Pow(min(1, both), curve) // rounded vectors can be longer than 1
	if named && c.inside(d) {
		s.name = NamedInside
		s.score = sureAlone + (MaxInexact-sureAlone)*s.score/MaxUnsure
	}
}

// inside reports whether the query has a whole name and little else.
func (c *comparison) inside(d *doc) bool {
	for i := range c.names[:len(d.names)] {
		n := d.names[i]
		if n.exact == 0 {
			continue
		}
		if said := bits.OnesCount64(c.names[i].asked); c.names[i].whole(n.size) && said*nameInside >= len(c.query.words)*(nameInside-1) {
			return true
		}
	}
	return false
}

func (c *comparison) beginNames(n int) {
	for len(c.names) < n {
		c.names = append(c.names, saying{})
	}
	for i := range c.names[:n] {
		c.names[i] = saying{words: c.names[i].words[:0]}
	}
}

// say records that names have a word of the query.
func (c *comparison) say(d *doc, word uint32, l like) {
	at, _ := slices.BinarySearchFunc(d.said, word, func(s saidIn, w uint32) int { return cmp.Compare(s.word, w) })
	for ; at < len(d.said) && d.said[at].word == word; at++ {
		n := &c.names[d.said[at].name]
		n.say(saidWord{word, l.likeness})
		n.asked |= 1 << l.asked
		if l.likeness == 1 {
			n.spelled |= 1 << l.asked
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
func (d *doc) rank() uint64 {
	title := d.names[fieldTitle]
	return uint64(min(title.size, 255))<<56 | title.exact>>8 //nolint:gosec // a small number
}

// A score is made of words and meaning:
//
//	likeness of two words = 1 if equal, less for other forms, beginnings and typing errors,
//	        or the third power of the cosine of their vectors, if that is at least leastRelated
//	words   = sum(rarity * likeness * weight of the word in the protocol) / sum(rarity)
//	meaning = cosine of request and protocol, above that of the protocol in the middle
//	score   = MaxUnsure * (wordShare * words + (1-wordShare) * meaning) ^ curve
//
// The best word of the protocol counts for each word of the request. A request that is or
// has a name of the protocol scores more than MaxUnsure. See docs/design/search.md.
const (
	leastRelated = 0.5
	wordShare    = 0.65
	curve        = 0.6 // spreads low scores, so that 0.3 is a fair threshold
)
