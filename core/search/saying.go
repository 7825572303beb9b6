package search

// saying records which words of a name a query contains.
type saying struct {
	words []saidWord

	asked   uint64 // bits of the words of the query that the name has
	spelled uint64 // those that are spelled like in the name
}

// saidWord is a word of a name.
type saidWord struct {
	number uint32
	like   float64
}

// say adds a word. Of several words of the query that match it, the best counts.
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

// whole reports whether the query certainly contains the whole name of this many words:
// three or more, or two that follow each other.
func (s *saying) whole(size int) bool {
	alike := 0.0
	for _, w := range s.words {
		alike += w.like
	}
	unsaid := max(0, float64(size)-alike)
	return len(s.words) >= size && unsaid <= (1-likeRoot)*float64(size)+1e-9 && (size >= 3 || size == 2 && s.spelled&(s.spelled>>1) != 0)
}
