package sqlite

import (
	"errors"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/pack"
)

// analysed is a chain in the form of the search tables.
type analysed struct {
	document []byte // packed
	postings []search.Posting
	words    []string
}

// analyse indexes a chain. It takes longer than storing the chain, so it runs
// before the file is locked.
func analyse(c protocol.Chain) (analysed, error) {
	d := search.Analyse(c)
	b, err := d.AppendBinary(nil)
	return analysed{document: pack.Pack(pack.Protocol, b), postings: d.Postings(), words: d.Vocabulary()}, err
}

// documentID is the id of a document by the number of its space and its own.
func documentID(space, number int64) int64 { return space<<32 | number }

// addition holds chains of one space that are added to the index together.
type addition struct {
	space     string
	chains    []int // positions among the chains of the call
	documents [][]byte
	postings  [][]search.Posting
	words     map[string]bool
	segment   segment
}

// additions groups the chains by space, with a segment for each.
func additions(spaces []string, chains []analysed) []*addition {
	var all []*addition
	bySpace := map[string]*addition{}
	for i, space := range spaces {
		a := bySpace[space]
		if a == nil {
			a = &addition{space: space, words: map[string]bool{}}
			bySpace[space] = a
			all = append(all, a)
		}
		a.chains = append(a.chains, i)
		a.documents = append(a.documents, chains[i].document)
		a.postings = append(a.postings, chains[i].postings)
		for _, w := range chains[i].words {
			a.words[w] = true
		}
	}
	for _, a := range all {
		a.segment, a.postings = segmentOf(a.postings), nil
	}
	return all
}

// insert adds to the index. keys are those of all chains of the call. Words that
// are known to be stored are left out.
func (a *addition) insert(tx *transaction, keys []int64, known *knownWords) error {
	if err := checkAnalyser(tx); err != nil {
		return err
	}
	var number, last int64
	n := int64(len(a.documents))
	if _, err := tx.row(`INSERT INTO search_spaces (space, chains, last) VALUES (?1, ?2, ?2)
		ON CONFLICT (space) DO UPDATE SET chains = chains + ?2, last = last + ?2 RETURNING number, last`,
		[]any{a.space, n}, &number, &last); err != nil {
		return err
	}
	first := last - n + 1
	var documents, words []any
	for i, document := range a.documents {
		documents = append(documents, documentID(number, first+int64(i)), keys[a.chains[i]], document)
	}
	if err := tx.insert(`search_documents (id, chain, document)`, 3, documents); err != nil {
		return err
	}
	for _, word := range known.unknown(a.words) {
		words = append(words, word)
	}
	if err := tx.insertNew(`search_words (word)`, 1, words); err != nil {
		return err
	}
	if err := insertSegment(tx, storedSegment{space: number, first: first, span: n, documents: n}, a.segment); err != nil {
		return err
	}
	return tidy(tx, number)
}

// storedSegment is the row of a segment.
type storedSegment struct {
	id, space, first, span, documents int64
	gone                              []byte
}

func insertSegment(tx *transaction, row storedSegment, made segment) error {
	var id int64
	if _, err := tx.row(`INSERT INTO search_segments (space, first, span, documents, directory) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		[]any{row.space, row.first, row.span, row.documents, append([]byte{}, made.directory...)}, &id); err != nil {
		return err
	}
	var blocks []any
	for i, block := range made.blocks {
		blocks = append(blocks, blockID(id, i), block)
	}
	return tx.insert(`search_blocks (id, block)`, 2, blocks)
}

func blockID(segment int64, block int) int64 { return segment<<20 | int64(block) }

// errAnalyser reports that another version of this program has rebuilt the index.
var errAnalyser = errors.New("a newer version of this program has changed the search index; restart this one with that version")

// checkAnalyser prevents a program from adding its words to an index that a newer
// version has rebuilt.
func checkAnalyser(tx *transaction) error {
	var version int
	if _, err := tx.row(`SELECT analyser FROM search_state`, nil, &version); err != nil {
		return err
	}
	if version != search.Version {
		return errAnalyser
	}
	return nil
}

// removeIndex removes a chain from the index, if it is there.
func removeIndex(tx *transaction, key int64) error {
	var id int64
	found, err := tx.row(`DELETE FROM search_documents WHERE chain = ? RETURNING id`, []any{key}, &id)
	if err != nil || !found {
		return err
	}
	space, number := id>>32, id&(1<<32-1)
	if err := tx.exec(`UPDATE search_spaces SET chains = chains - 1 WHERE number = ?`, space); err != nil {
		return err
	}
	in := storedSegment{space: space}
	if _, err := tx.row(`SELECT id, first, span, documents, gone FROM search_segments
		WHERE space = ? AND first <= ? ORDER BY first DESC LIMIT 1`,
		[]any{space, number}, &in.id, &in.first, &in.span, &in.documents, &in.gone); err != nil {
		return err
	}
	if number >= in.first+in.span {
		return errSegment
	}
	in.documents--
	in.gone = withGone(in.gone, int(number-in.first), int(in.span))
	if countGone(in.gone) > int(in.documents) {
		return mergeStored(tx, []storedSegment{in})
	}
	return tx.exec(`UPDATE search_segments SET documents = ?, gone = ? WHERE id = ?`, in.documents, in.gone, in.id)
}
