package search

// Scorer is a query with the numbers of the words that answer it: its words are
// compared with those of a vocabulary once, not with those of each document. It is
// read-only and safe for concurrent use.
type Scorer struct {
	query   Query
	rarity  []float64 // by word of the query
	weights []float64 // by word of the query
	total   float64   // of weights
	rarest  float64   // of a word that a single chain has

	likes map[uint32][]like // by number
	// may has a bit for each number in likes, by its lower bits: it rules out most
	// words of a document.
	may [1 << (mayBits - 6)]uint64
}

// mayBits is large enough that few words of a document pass for those of a query.
const mayBits = 12

// like is a word of a vocabulary that is similar to one of the query.
type like struct {
	asked    int // in the query
	likeness float64
	ranker   string
	text     string
}

// Scorer compares the query with a vocabulary that has all words of the documents to be
// scored.
func (q Query) Scorer(v Vocabulary, s Stats) *Scorer {
	x := &Scorer{query: q, weights: q.Weights(s), rarest: s.rarest(), likes: map[uint32][]like{}}
	for i, word := range q.words {
		x.rarity = append(x.rarity, s.Rarity(i))
		x.total += x.weights[i]
		l := word.matcher(s.unknown(i))
		v.ofTerm(l.Term, func(word Numbered) { x.compare(i, &l, word, true) })
		others := func(word Numbered) { x.compare(i, &l, word, false) }
		if l.Root != "" {
			v.startingWith(l.Root, others)
		}
		if l.forgiving() {
			v.similar(l.Word, others)
		}
	}
	return x
}

// compare adds a word of the vocabulary if it is similar to a word of the query.
func (x *Scorer) compare(asked int, l *look, word Numbered, sameTerm bool) {
	known := x.likes[word.Number]
	if n := len(known); n > 0 && known[n-1].asked == asked {
		return
	}
	if likeness, ranker := l.likeness(word.Text, sameTerm); likeness > 0 {
		x.likes[word.Number] = append(known, like{asked, likeness, ranker, word.Text})
		x.may[word.Number%(1<<mayBits)/64] |= 1 << (word.Number % 64)
	}
}

// alike returns the words of the query that are similar to the word with the number.
func (x *Scorer) alike(number uint32) []like {
	if x.may[number%(1<<mayBits)/64]&(1<<(number%64)) == 0 {
		return nil
	}
	return x.likes[number]
}

// Score scores a chain, and reports whether it matches at all.
func (x *Scorer) Score(d Document) (Result, bool) {
	f := x.find(d)
	defer findings.Put(f)
	if score := x.query.nameScore(d); score > 0 {
		_, step := f.together(d.steps)
		return Result{Score: score, Step: step}, true
	}
	e := f.evidence(d)
	if max(e.covered, e.said) < minCoverage || x.query.filler && e.inTitle < len(x.query.words) {
		return Result{}, false
	}
	return Result{Score: e.score(), Step: e.step}, true
}
