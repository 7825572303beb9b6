package wordindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// Analysed is a chain in the form of the index.
type Analysed struct {
	analysis search.Analysis
	postings []search.Posting
}

// Analyse indexes a chain. It takes longer than storing the chain, so call it before
// other writers are excluded.
func Analyse(c protocol.Chain) Analysed {
	a := search.Analyse(c)
	return Analysed{analysis: a, postings: a.Postings()}
}

// documentID is the id of a document by the number of its space and its own.
func documentID(space, number int64) int64 { return space<<32 | number }

// BlockID is the id of a block by its segment and its index there.
func BlockID(segment int64, block int) int64 { return segment<<20 | int64(block) }

// Addition holds chains of one space that are added to the index together.
type Addition struct {
	space    string
	chains   []int // positions among the chains of the call
	analyses []search.Analysis
	postings [][]search.Posting
	with     map[string]int    // how many of the chains have a word
	numbers  map[string]uint32 // of all words, after Insert
	segment  Segment
}

// Additions groups the chains by space, with a segment for each.
func Additions(spaces []string, chains []Analysed) []*Addition {
	var all []*Addition
	bySpace := map[string]*Addition{}
	for i, space := range spaces {
		a := bySpace[space]
		if a == nil {
			a = &Addition{space: space, with: map[string]int{}}
			bySpace[space] = a
			all = append(all, a)
		}
		a.chains = append(a.chains, i)
		a.analyses = append(a.analyses, chains[i].analysis)
		a.postings = append(a.postings, chains[i].postings)
		for _, w := range chains[i].analysis.Words() {
			a.with[w]++
		}
	}
	for _, a := range all {
		a.segment, a.postings = segmentOf(a.postings), nil
	}
	return all
}

// Words are the words of the chains with their numbers, once it is inserted.
func (a *Addition) Words() map[string]uint32 { return a.numbers }

// Insert adds to the index. keys are those of all chains of the call.
func (a *Addition) Insert(w Writer, keys []int64, known *KnownWords) error {
	if err := checkVersion(w.Version()); err != nil {
		return err
	}
	n := int64(len(a.analyses))
	space, last, err := w.Extend(a.space, n)
	if err != nil {
		return err
	}
	if err := a.number(w, known); err != nil {
		return err
	}
	first := last - n + 1
	documents := make([]Document, len(a.analyses))
	for i := range documents {
		documents[i] = Document{ID: documentID(space, first+int64(i)), Chain: keys[a.chains[i]], Raw: a.document(i)}
	}
	if err := w.InsertDocuments(documents); err != nil {
		return err
	}
	if err := w.InsertSegment(Stored{Space: space, First: first, Span: n, Documents: n}, a.segment); err != nil {
		return err
	}
	return tidy(w, space)
}

// number finds the numbers of all words. Those of known words need not be read. New
// words are numbered by how many chains have them: small differences take less space.
func (a *Addition) number(w Writer, known *KnownWords) error {
	var unknown []string
	if a.numbers, unknown = known.number(a.with); len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, func(x, y string) int { return cmp.Or(cmp.Compare(a.with[y], a.with[x]), strings.Compare(x, y)) })
	numbered, err := w.NumberWords(unknown)
	for _, word := range numbered {
		a.numbers[word.Text] = word.Number
	}
	return err
}

// document is a chain in the form that Reader.Documents returns.
func (a *Addition) document(i int) []byte {
	words := a.analyses[i].Words()
	numbers := make([]uint32, len(words))
	for j, word := range words {
		numbers[j] = a.numbers[word]
	}
	return a.analyses[i].AppendBinary(nil, numbers)
}

// Remove removes a chain from the index.
func Remove(w Writer, chain int64) error {
	if err := checkVersion(w.Version()); err != nil {
		return err
	}
	id, found, err := w.RemoveDocument(chain)
	if err != nil || !found {
		return err
	}
	space, number := id>>32, id&(1<<32-1)
	if err := w.Shrink(space); err != nil {
		return err
	}
	in, err := w.SegmentUpTo(space, number)
	if err != nil {
		return err
	}
	if number >= in.First+in.Span {
		return errSegment
	}
	in.Documents--
	in.Gone = withGone(in.Gone, int(number-in.First), int(in.Span))
	if countGone(in.Gone) > int(in.Documents) {
		return mergeStored(w, []Stored{in})
	}
	return w.UpdateSegment(in)
}
