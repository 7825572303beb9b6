package search

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/meaning"
)

// Few is the number of protocols in reach up to which a search lists all of them.
const Few = 50

// Request is what is asked of an Index.
type Request struct {
	Texts     []string    // rephrasings of one request
	Vectors   [][]float32 // of the texts, an empty one for words alone; nil: those of the table
	Near      []*Near     // of the texts, nil for one whose vector is compared here; may be shorter
	Spaces    []string    // of a protocol with copies in several, the first counts
	Except    []string    // UUIDs of the first steps of protocols that are never found
	Threshold float64     // of Answer.Choices
	Choices   int         // at most
	Unsure    int         // choices at most while the first is not sure
	Nearest   int         // at most, unless there are few protocols
}

// Near has protocols whose vectors are nearest to that of a text, as another index has
// found them. It replaces the comparison of vectors.
type Near struct {
	Found  []NearProtocol
	Random []float64 // cosines of the text with parts of protocols chosen at random
}

// NearProtocol is a part of a protocol. The index may know deleted ones, too.
type NearProtocol struct {
	Space, ChainID string
	Cosine         float64
}

// Answer is what was found.
type Answer struct {
	Confidence Confidence
	Choices    []Found // at or above the threshold, best first
	Nearest    []Found // the best of the others; nil if the first choice is sure
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
	Name    string    `json:"name,omitempty"` // NamedExactly, NamedInside, or empty
	Words   float64   `json:"words"`          // the share of the words of the request that it has, 0..1
	Meaning float64   `json:"meaning"`        // how near its nearest part is to the request, 0..1
	Matches []Matched `json:"matches"`
}

// Matched is a word of a request with the word of a protocol that answers it.
type Matched struct {
	Asked  string  `json:"asked"`
	Found  string  `json:"found"`
	Ranker string  `json:"ranker"` // words, prefix, typo, or vector for one of similar meaning
	Score  float64 `json:"score"`  // its part of Why.Words
}

// Search finds protocols.
func (x *Index) Search(r Request) Answer {
	x.mu.RLock()
	defer x.mu.RUnlock()
	docs := x.reach(r)
	var all []scored
	for i := range r.Texts {
		scores := x.scan(r.said(x.table, i), docs)
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
	for _, f := range [][]Found{a.Choices, a.Nearest[:min(len(a.Nearest), r.Nearest)]} {
		for i := range f {
			f[i].Why.Matches = x.explain(f[i])
		}
	}
	return a
}

// said is one of the texts with what is known of its meaning.
type said struct {
	text   string
	vector []float32
	near   *Near
	model  bool // an embedding model made the vector, which alone can make a choice
}

func (r Request) said(table *meaning.Table, i int) said {
	s := said{text: r.Texts[i]}
	switch {
	case i < len(r.Near) && r.Near[i] != nil:
		s.near, s.model = r.Near[i], true
	case i < len(r.Vectors):
		s.vector, s.model = r.Vectors[i], true
	case table != nil:
		s.vector = vectorOf(table, s.text)
	}
	return s
}

// scored is a protocol that was compared with a request.
type scored struct {
	score, words, meaning float64
	name                  string
	doc                   *doc
	asked                 *asked
}

// first returns the best n, in order. Of copies of a protocol it takes the best, and of
// equal ones the first.
func first(all []scored, n int) []Found {
	best := make([]scored, 0, n+1)
	for _, s := range all {
		if len(best) == n && !s.before(best[n-1]) {
			continue
		}
		if copied := slices.IndexFunc(best, s.copies); copied >= 0 {
			if best[copied].score >= s.score {
				continue
			}
			best = slices.Delete(best, copied, copied+1)
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

// copies reports whether both are copies of one protocol in several spaces.
func (s scored) copies(t scored) bool {
	return s.doc.head.UUID == t.doc.head.UUID && s.doc.space != t.doc.space
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
	for at, space := range r.Spaces {
		if s := x.shelves[space]; s != nil && !slices.Contains(r.Spaces[:at], space) {
			docs = slices.Grow(docs, len(s.docs))
			for i := range s.docs {
				if d := &s.docs[i]; !slices.Contains(r.Except, d.head.UUID) {
					docs = append(docs, d)
				}
			}
		}
	}
	return docs
}

func (r Request) answer(found []Found, reach int) Answer {
	a := Answer{Reach: reach, Confidence: ConfidenceNone}
	n, second := 0, 0.0
	for n < len(found) && found[n].Score >= r.Threshold && found[n].Score > 0 {
		n++
	}
	if len(found) > 1 {
		second = found[1].Score
	}
	if n > 0 && r.Choices > 0 && Sure(found[0].Score, second) {
		a.Confidence, a.Choices = ConfidenceSure, found[:min(n, r.Choices)]
		return a
	}
	a.Choices = found[:min(n, r.Choices, r.Unsure)]
	a.Nearest = found[len(a.Choices):]
	if reach > Few {
		a.Nearest = a.Nearest[:min(len(a.Nearest), r.Nearest)]
		a.Nearest = slices.DeleteFunc(slices.Clone(a.Nearest), func(f Found) bool { return f.Score <= 0 })
	}
	switch {
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
	q := Ask(title)
	var all []scored
	for _, space := range spaces {
		s := x.shelves[space]
		if s == nil {
			continue
		}
		for i := range s.docs {
			d := &s.docs[i]
			if score := q.nameScore(d.names); score > 0 {
				all = append(all, scored{score: score, words: 1, name: NamedExactly, doc: d})
			}
		}
	}
	return first(all, len(all))
}
