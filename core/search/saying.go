package search

// saying records which words of a name a query contains.
type saying struct {
	words []saidWord
	next  int // word of the query that would continue the row
	row   int // consecutive words, spelled like in the name

	asked   uint64 // bits of the words of the query that the name has
	spelled uint64 // those that are spelled like in the name
}

// saidWord is a word of a name.
type saidWord struct {
	number uint32
	like   float64
	rarity float64
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

// share returns how much of a name with this many words the query contains, and
// whether it certainly contains the whole name.
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
	whole = len(s.words) >= size && unsaid <= (1-likeRoot)*float64(size)+1e-9 && (size >= 3 || size == 2 && (s.row >= 2 || s.spelled&(s.spelled>>1) != 0))
	return told / (told + unsaidRarity*unsaid), whole
}
