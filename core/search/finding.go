package search

import (
	"sync"
)

// finding holds the places where a chain has the words of a query.
type finding struct {
	looks  []look    // by word of the query
	begins [256]bool // first bytes of them
	// forgiving reports that typing errors are tolerated in one of the words.
	forgiving bool
	hits      [][]hit   // by word of the query
	rarity    []float64 // by word of the query
	weights   []float64 // by word of the query
	total     float64   // of weights
	rarest    float64   // of a word that a single chain has

	names      []saying  // by name
	sums, best []float64 // by step; zero while not in use
}

// findings are reused: many chains are scored for one query.
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
			continue // skips most words: a word, its term and its root have the same first byte
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

// begin resets the finding for a query.
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

// say records that a name has a word of the query.
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

// together returns how much of the query the best step covers, together with the
// fields of the whole chain. The first of equal steps wins.
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
