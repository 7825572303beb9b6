package search

import (
	"cmp"
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
	Explain   bool     // fill Why.Matches
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

	doc   *doc
	asked *asked
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
	docs := x.reach(r)
	var all []scored
	for i, text := range r.Texts {
		var vector []float32
		if i < len(r.Vectors) {
			vector = r.Vectors[i]
		} else if x.table != nil {
			vector = vectorOf(x.table, text)
		}
		scores := x.scan(text, vector, docs)
		if i == 0 {
			all = scores
			continue
		}
		for at, s := range scores {
			if s.score > all[at].score {
				all[at] = s
			}
		}
	}
	most := len(all)
	if most > Few {
		most = max(0, r.Choices) + max(0, r.Nearest) + 1 // one more shows whether the best is ahead
	}
	found := first(all, most)
	a := r.answer(found, len(docs))
	if r.Explain {
		for _, f := range [][]Found{a.Choices, a.Nearest} {
			for i := range f {
				f[i].Why.Matches = x.explain(f[i])
			}
		}
	}
	return a
}

// scored is a protocol that was compared with a request.
type scored struct {
	score, words, meaning float64
	name                  string
	doc                   *doc
	asked                 *asked
}

// first returns the best n, in order.
func first(all []scored, n int) []Found {
	best := make([]scored, 0, n+1)
	for _, s := range all {
		if len(best) == n && !s.before(best[n-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, s, func(a, b scored) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, s)[:min(len(best)+1, n)]
	}
	found := make([]Found, len(best))
	for i, s := range best {
		found[i] = s.found()
	}
	return found
}

func (s scored) found() Found {
	return Found{
		Head: s.doc.head, Space: s.doc.space, ChainID: s.doc.chainID, Score: s.score,
		Why: Why{Name: s.name, Words: s.words, Meaning: s.meaning}, doc: s.doc, asked: s.asked,
	}
}

// before reports whether the protocol is better, or first by an order that is always the
// same: shorter titles first.
func (s scored) before(t scored) bool {
	if s.score != t.score {
		return s.score > t.score
	}
	return cmp.Or(cmp.Compare(s.doc.rank(), t.doc.rank()), strings.Compare(s.doc.head.Title, t.doc.head.Title), strings.Compare(s.doc.space, t.doc.space)) < 0
}

// reach returns the protocols that a request may find.
func (x *Index) reach(r Request) []*doc {
	var docs []*doc
	for _, space := range slices.Compact(slices.Sorted(slices.Values(r.Spaces))) {
		if s := x.shelves[space]; s != nil {
			docs = slices.Grow(docs, len(s.docs))
			for i := range s.docs {
				if d := &s.docs[i]; !slices.Contains(r.Except, d.chainID) {
					docs = append(docs, d)
				}
			}
		}
	}
	return docs
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

// Named finds the protocols that have the title as a name, or one that looks like it or
// has its words.
func (x *Index) Named(title string, spaces []string) []Found {
	x.mu.RLock()
	defer x.mu.RUnlock()
	q := Ask(title).Named()
	var all []scored
	for _, space := range spaces {
		s := x.shelves[space]
		if s == nil {
			continue
		}
		for _, d := range s.docs {
			if score := q.nameScore(Document{names: d.names}); score > 0 {
				all = append(all, scored{score: score, words: 1, name: NamedExactly, doc: &d})
			}
		}
	}
	return first(all, len(all))
}
