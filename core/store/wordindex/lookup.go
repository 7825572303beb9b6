package wordindex

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/search"
)

// A lookup finds candidates: the chains with the highest approximate score, by the
// rarity of the words they have and their places.
type lookup struct {
	reader   Reader
	index    *Index
	query    search.Query
	spaces   []Space
	segments []searched
	stats    search.Stats
	scorer   *search.Scorer
	weights  []float64 // of the wanted words
	wanted   []wanted
	lists    map[string][][]byte // by term and segment
	tally    tally
	near     map[int64]near // by document: chains with a step whose vector is near the query's
}

// wanted is one word of the query.
type wanted struct {
	word   search.Word
	others []string // terms of its completions or corrections
}

// How well a document has a word. Higher is better.
type standing uint8

const standings = 9

// The approximate weight of a word by its place. These select the candidates;
// core/search computes the score. Completions and corrections count less; 0 means
// that the word is missing.
var (
	asWord  = [4]standing{search.InText: 4, search.InTags: 6, search.InLabel: 7, search.InName: 8}
	asOther = [4]standing{search.InText: 1, search.InTags: 2, search.InLabel: 3, search.InName: 5}

	roughly = func() (weights [standings]float32) {
		const other = 0.8
		for s := search.InText; s <= search.InName; s++ {
			weights[asWord[s]] = float32(s.Weight())
			weights[asOther[s]] = float32(other * s.Weight())
		}
		return weights
	}()
)

// lookUp does the lookups of a query.
func (x *Index) lookUp(r Reader, query search.Query, spaces []Space) (*lookup, error) {
	l := &lookup{reader: r, index: x, query: query, spaces: spaces, lists: map[string][][]byte{}}
	for _, space := range spaces {
		l.stats.Chains += space.Chains
	}
	if err := l.readSegments(); err != nil {
		return nil, err
	}
	known, err := x.vocabulary.refresh(r)
	if err != nil {
		return nil, err
	}
	terms := query.Names()
	for _, word := range query.Words() {
		w := wanted{word: word, others: others(word, known.Completions(word))}
		l.wanted = append(l.wanted, w)
		terms = append(append(terms, word.Term), w.others...)
	}
	if err := l.read(terms); err != nil {
		return nil, err
	}
	if err := l.count(known); err != nil {
		return nil, err
	}
	l.weights, l.scorer = query.Weights(l.stats), query.Scorer(known, l.stats)
	return l, nil
}

// read reads the lists of terms.
func (l *lookup) read(terms []string) error {
	slices.Sort(terms)
	lists, err := l.readLists(slices.Compact(terms))
	maps.Copy(l.lists, lists)
	return err
}

// others returns the terms without the word's own.
func others(word search.Word, terms []string) []string {
	return slices.DeleteFunc(terms, func(term string) bool { return term == word.Term })
}

// count counts the chains that have each word, and looks up corrections of words
// that none has.
func (l *lookup) count(known search.Vocabulary) error {
	var terms []string
	l.stats.With = make([]int, len(l.wanted))
	for i := range l.wanted {
		w := &l.wanted[i]
		if l.stats.With[i] = l.with([]string{w.word.Term}); l.stats.With[i] == 0 {
			l.stats.With[i] = l.with(w.others)
		}
		if l.stats.With[i] == 0 {
			// Still none: only then corrections are considered.
			w.others = others(w.word, known.Corrections(w.word))
			terms = append(terms, w.others...)
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return l.read(terms)
}

// with returns how many documents have one of the terms.
func (l *lookup) with(terms []string) int {
	n := 0
	for i := range l.segments {
		if len(terms) == 1 && l.segments[i].Gone == nil {
			n += documentsIn(l.list(terms[0], i))
			continue
		}
		l.tally.begin(&l.segments[i])
		for _, term := range terms {
			l.tally.note(l.list(term, i), &asWord)
		}
		n += len(l.tally.noted)
	}
	return n
}

// list returns the documents of a segment that have the term.
func (l *lookup) list(term string, segment int) []byte {
	if lists := l.lists[term]; lists != nil {
		return lists[segment]
	}
	return nil
}

// best returns the n documents with the best approximate scores, those with the
// best names, and all that match by name or by vector.
func (l *lookup) best(n int) []int64 {
	top, named := ranking{limit: n}, ranking{limit: namedCandidates}
	ids := slices.Collect(maps.Keys(l.near))
	for i := range l.segments {
		s := &l.segments[i]
		l.tally.begin(s)
		for _, name := range l.query.Names() {
			l.tally.note(l.list(name, i), &asWord)
		}
		for _, number := range l.tally.noted[:min(n, len(l.tally.noted))] {
			ids = append(ids, s.document(number))
		}
		l.sum(i)
		for number, sum := range l.tally.sums {
			if sum > top.least {
				top.add(s.document(int32(number)), sum) //nolint:gosec // a segment spans less than 1<<31
			}
		}
		for number, sum := range l.tally.named {
			if sum > named.least {
				named.add(s.document(int32(number)), sum) //nolint:gosec // likewise
			}
		}
	}
	for _, d := range slices.Concat(top.documents, named.documents) {
		ids = append(ids, d.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// sum computes the approximate scores of the documents of a segment.
func (l *lookup) sum(segment int) {
	s := &l.segments[segment]
	t := &l.tally
	t.sums = append(t.sums[:0], make([]float32, s.Span)...)
	t.named = append(t.named[:0], make([]float32, s.Span)...)
	for i, w := range l.wanted {
		t.begin(s)
		t.note(l.list(w.word.Term, segment), &asWord)
		for _, other := range w.others {
			t.note(l.list(other, segment), &asOther)
		}
		weight, rarity := float32(l.weights[i]), float32(l.stats.Rarity(i))
		for _, number := range t.noted {
			mark := t.marks[number]
			t.sums[number] += weight * roughly[mark]
			if mark == asWord[search.InName] || mark == asOther[search.InName] {
				t.named[number] += rarity * roughly[mark]
			}
		}
	}
}

// tally records how well the documents of a segment have one word.
type tally struct {
	segment *searched
	marks   []standing // by number in the segment
	noted   []int32    // numbers that have a mark

	sums, named []float32 // approximate scores by number: of all words, and of those in names
}

// begin clears all marks.
func (t *tally) begin(s *searched) {
	for _, number := range t.noted {
		t.marks[number] = 0
	}
	t.noted = t.noted[:0]
	t.segment = s
	if more := int(s.Span) - len(t.marks); more > 0 {
		t.marks = append(t.marks, make([]standing, more)...)
	}
}

// note marks the documents of a list.
func (t *tally) note(list []byte, as *[4]standing) {
	gone := t.segment.Gone
	marks := t.marks[:t.segment.Span]
	number := 0
	for len(list) > 0 {
		var gap int
		var s search.Standing
		gap, s, list = nextDocument(list)
		number += gap
		if number >= len(marks) {
			return // not written by this program
		}
		if gone != nil && isGone(gone, number) {
			continue
		}
		if marks[number] == 0 {
			t.noted = append(t.noted, int32(number)) //nolint:gosec // less than the span
		}
		marks[number] = max(marks[number], as[s])
	}
}

// ranking keeps the documents with the highest sums, the lowest first.
type ranking struct {
	limit     int
	least     float32 // that a sum must exceed
	documents []ranked
}

type ranked struct {
	id  int64
	sum float32
}

// add adds a document. Of equal documents the first ones stay.
func (r *ranking) add(id int64, sum float32) {
	at, _ := slices.BinarySearchFunc(r.documents, sum, func(d ranked, sum float32) int {
		return cmp.Or(cmp.Compare(d.sum, sum), 1)
	})
	if len(r.documents) == r.limit {
		// Drop the lowest: the others move over it.
		copy(r.documents, r.documents[1:at])
		r.documents[at-1] = ranked{id, sum}
	} else {
		r.documents = slices.Insert(r.documents, at, ranked{id, sum})
	}
	if len(r.documents) == r.limit {
		r.least = r.documents[0].sum
	}
}
