package search

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
