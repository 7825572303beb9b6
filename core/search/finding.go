package search

import (
	"sync"
)

// finding holds the places where a chain has the words of a query.
type finding struct {
	*Scorer
	hits [][]hit // by word of the query

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
	word   uint32 // its number
	text   string
}

func (x *Scorer) find(d Document) *finding {
	f := findings.Get().(*finding)
	f.begin(x)
	r := reader{rest: d.lists}
	at := place(0)
	for len(r.rest) > 0 {
		at += place(r.number(1<<32 - 1)) //nolint:gosec // at most 32 bits
		if words := r.number(maxEntries); !r.failed && d.has(at) {
			r.rest = f.read(r.rest, at, words)
			continue
		}
		break
	}
	return f
}

// read reads the numbers of the words at a place, and returns what follows them.
func (f *finding) read(rest []byte, at place, words int) []byte {
	number := uint32(0)
	for range words {
		gap, n := uvarint(rest)
		if n <= 0 {
			return nil
		}
		rest = rest[n:]
		number += uint32(gap) //nolint:gosec // a damaged number is that of another word
		for _, l := range f.alike(number) {
			f.hits[l.asked] = append(f.hits[l.asked], hit{at, l.likeness * fieldWeight[at.field()], l.ranker, number, l.text})
		}
	}
	return rest
}

// begin resets the finding for a query.
func (f *finding) begin(x *Scorer) {
	f.Scorer = x
	for len(f.hits) < len(x.query.words) {
		f.hits = append(f.hits, nil)
	}
	f.hits = f.hits[:len(x.query.words)]
	for i := range f.hits {
		f.hits[i] = f.hits[i][:0]
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
