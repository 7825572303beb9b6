package search

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Few is the number of protocols in reach up to which a search lists all of them.
const Few = 50

// Request is what is asked of an Index.
type Request struct {
	Texts     []string    // rephrasings of one request
	Vectors   [][]float32 // of the texts; nil: those of the table
	Spaces    []string
	Except    []string // ChainIDs that are never found
	Threshold float64  // of Answer.Choices
	Choices   int      // at most
	Nearest   int      // at most, unless there are few protocols
}

// Answer is what was found.
type Answer struct {
	Confidence Confidence
	Choices    []Found // at or above the threshold, best first
	Nearest    []Found // the best of the others
	Reach      int     // number of protocols in the spaces
}

// Confidence is whether the first choice is the protocol that is meant.
type Confidence string

// Confidences.
const (
	ConfidenceSure    Confidence = "sure"    // it may be begun without asking
	ConfidencePerhaps Confidence = "perhaps" // there are choices
	ConfidenceWeak    Confidence = "weak"    // there is only what is nearest
	ConfidenceNone    Confidence = "none"    // there is nothing
)

// Found is a protocol with its score.
type Found struct {
	Head
	Space, ChainID string
	Score          float64 // 0..1
	Why            Why

	rank uint64
}

// Why explains a score.
type Why struct {
	Name    string  // NamedExactly, NamedInside, or empty
	Words   float64 // the share of the words of the request that it has, 0..1
	Meaning float64 // how near its nearest part is to the request, 0..1
	Matches []Matched
}

// Matched is a word of a request with the word of a protocol that answers it.
type Matched struct {
	Asked, Found string
	Ranker       string
	Score        float64 // its part of Why.Words
}

// Search finds protocols.
func (x *Index) Search(r Request) Answer {
	x.mu.RLock()
	defer x.mu.RUnlock()
	best := map[*doc]Found{}
	var docs []*doc
	spaces := map[*doc]string{}
	for _, space := range slices.Compact(slices.Sorted(slices.Values(r.Spaces))) {
		if s := x.shelves[space]; s != nil {
			for i := range s.docs {
				if !slices.Contains(r.Except, s.docs[i].chainID) {
					docs = append(docs, &s.docs[i])
					spaces[&s.docs[i]] = space
				}
			}
		}
	}
	for i, text := range r.Texts {
		var vector []float32
		if i < len(r.Vectors) {
			vector = r.Vectors[i]
		} else if x.table != nil {
			vector = vectorOf(x.table, text)
		}
		for _, f := range x.scan(text, vector, docs) {
			if known, ok := best[f.doc]; !ok || f.Score > known.Score {
				f.Space, f.ChainID, f.Head = spaces[f.doc], f.doc.chainID, f.doc.head
				best[f.doc] = f.Found
			}
		}
	}
	found := make([]Found, 0, len(best))
	for _, f := range best {
		found = append(found, f)
	}
	sortFound(found)
	return r.answer(found, len(docs))
}

func (r Request) answer(found []Found, reach int) Answer {
	a := Answer{Reach: reach, Confidence: ConfidenceNone}
	n := 0
	for n < len(found) && found[n].Score >= r.Threshold && found[n].Score > 0 {
		n++
	}
	a.Choices = found[:min(n, r.Choices)]
	rest := found[len(a.Choices):]
	if reach > Few {
		rest = rest[:min(len(rest), r.Nearest)]
		rest = slices.DeleteFunc(slices.Clone(rest), func(f Found) bool { return f.Score <= 0 })
	}
	a.Nearest = rest
	second := 0.0
	if len(found) > 1 {
		second = found[1].Score
	}
	switch {
	case len(a.Choices) > 0 && Sure(found[0].Score, second):
		a.Confidence = ConfidenceSure
	case len(a.Choices) > 0:
		a.Confidence = ConfidencePerhaps
	case len(a.Nearest) > 0:
		a.Confidence = ConfidenceWeak
	}
	return a
}

// scored is a protocol found by one text.
type scored struct {
	Found
	doc *doc
}

// asked is a text that is compared with protocols.
type asked struct {
	query  Query
	likes  map[uint32][]like
	may    []uint64 // a bit for each number that likes has
	rarity []float64
	vector []int8
}

func (x *Index) scan(text string, vector []float32, docs []*doc) []scored {
	a := x.ask(text, vector, docs)
	out := make([]scored, 0, len(docs))
	cosines := make([]float64, len(docs))
	for i, d := range docs {
		cosines[i] = a.cosine(d)
	}
	background := backgroundIn(cosines)
	for i, d := range docs {
		f := scored{doc: d}
		f.rank = d.rank()
		f.Why.Meaning = max(0, cosines[i]-background) / max(0.01, 1-background)
		a.score(d, &f.Found)
		out = append(out, f)
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
func (a *asked) score(d *doc, f *Found) {
	if score := a.query.nameScore(Document{names: d.names}); score > 0 {
		f.Score, f.Why.Name, f.Why.Words = score, NamedExactly, 1
		return
	}
	best, names := make([]float64, len(a.query.words)), make([]saying, len(d.names))
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
				a.say(names, d, n, l)
			}
		}
	}
	total := 0.0
	for i, b := range best {
		f.Why.Words += a.rarity[i] * b
		total += a.rarity[i]
	}
	f.Why.Words /= max(total, 1e-9)
	if a.query.filler && bits.OnesCount64(inTitle) < len(a.query.words) {
		return
	}
	f.Score = MaxUnsure * f.Why.Words
	if len(a.vector) > 0 {
		f.Score = MaxUnsure * (wordShare*f.Why.Words + (1-wordShare)*f.Why.Meaning)
	}
	for i, n := range d.names {
		if n.exact == 0 {
			continue
		}
		_, whole := names[i].share(n.size)
		if said := bits.OnesCount64(names[i].asked); whole && said*nameInside >= len(a.query.words)*(nameInside-1) {
			f.Why.Name = NamedInside
		}
	}
	if f.Why.Name == NamedInside {
		f.Score = sureAlone + (MaxInexact-sureAlone)*f.Score/MaxUnsure
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

// Named finds the protocols that have the title as a name, or one that looks like it or
// has its words.
func (x *Index) Named(title string, spaces []string) []Found {
	x.mu.RLock()
	defer x.mu.RUnlock()
	q := Ask(title).Named()
	var found []Found
	for _, space := range spaces {
		s := x.shelves[space]
		if s == nil {
			continue
		}
		for _, d := range s.docs {
			if score := q.nameScore(Document{names: d.names}); score > 0 {
				found = append(found, Found{Head: d.head, Space: space, ChainID: d.chainID, Score: score, Why: Why{Name: NamedExactly, Words: 1}, rank: d.rank()})
			}
		}
	}
	sortFound(found)
	return found
}

// The values of Why.Name.
const (
	NamedExactly = "equal"  // the request is a name of the protocol, in any order and form of its words
	NamedInside  = "inside" // the request has a whole name of the protocol
)

// nameInside is such that a request names a protocol if all but one in nameInside of its
// telling words are of the name: what it says besides may mean another protocol.
const nameInside = 3

func sortFound(found []Found) {
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.rank, b.rank), strings.Compare(a.Title, b.Title), strings.Compare(a.Space, b.Space))
	})
}

// rank orders protocols with equal scores: shorter titles first, then in an arbitrary
// order of the titles that is always the same.
func (d *doc) rank() uint64 { return Document{names: d.names}.Rank() }

// The constants of the score.
const (
	leastRelated  = 0.5  // cosine of two words from which one answers the other
	relatedWeight = 0.6  // of a word that means the same
	unknownShare  = 0.3  // of the rarity of a word that no protocol has
	wordShare     = 0.65 // of the score; the rest is meaning
)
