package sqlite

import (
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexWriter changes the search index in a transaction.
type indexWriter struct{ *transaction }

var _ wordindex.Writer = indexWriter{}

func (w indexWriter) Analyser() (version int, err error) {
	_, err = w.row(`SELECT analyser FROM search_state`, nil, &version)
	return version, err
}

func (w indexWriter) Extend(space string, n int64) (number, last int64, err error) {
	_, err = w.row(`INSERT INTO search_spaces (space, chains, last) VALUES (?1, ?2, ?2)
		ON CONFLICT (space) DO UPDATE SET chains = chains + ?2, last = last + ?2 RETURNING number, last`,
		[]any{space, n}, &number, &last)
	return number, last, err
}

func (w indexWriter) Shrink(space int64) error {
	return w.exec(`UPDATE search_spaces SET chains = chains - 1 WHERE number = ?`, space)
}

func (w indexWriter) InsertDocuments(documents []wordindex.Document) error {
	var values []any
	for _, d := range documents {
		values = append(values, d.ID, d.Chain, d.Raw)
	}
	return w.insert(`search_documents (id, chain, document)`, 3, values)
}

func (w indexWriter) RemoveDocument(chain int64) (id int64, found bool, err error) {
	found, err = w.row(`DELETE FROM search_documents WHERE chain = ? RETURNING id`, []any{chain}, &id)
	return id, found, err
}

func (w indexWriter) InsertWords(words []string) error {
	var values []any
	for _, word := range words {
		values = append(values, word)
	}
	return w.insertNew(`search_words (word)`, 1, values)
}

func (w indexWriter) InsertSegment(row wordindex.Stored, made wordindex.Segment) error {
	var id int64
	if _, err := w.row(`INSERT INTO search_segments (space, first, span, documents, directory) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		[]any{row.Space, row.First, row.Span, row.Documents, append([]byte{}, made.Directory...)}, &id); err != nil {
		return err
	}
	var blocks []any
	for i, block := range made.Blocks {
		blocks = append(blocks, wordindex.BlockID(id, i), block)
	}
	return w.insert(`search_blocks (id, block)`, 2, blocks)
}

func (w indexWriter) UpdateSegment(row wordindex.Stored) error {
	return w.exec(`UPDATE search_segments SET documents = ?, gone = ? WHERE id = ?`, row.Documents, row.Gone, row.ID)
}

func (w indexWriter) DeleteSegment(id int64) error {
	if err := w.exec(`DELETE FROM search_segments WHERE id = ?`, id); err != nil {
		return err
	}
	return w.exec(`DELETE FROM search_blocks WHERE id BETWEEN ? AND ?`, wordindex.BlockID(id, 0), wordindex.BlockID(id+1, 0)-1)
}

func (w indexWriter) SegmentBlocks(id int64) (blocks [][]byte, err error) {
	err = w.rows(`SELECT block FROM search_blocks WHERE id BETWEEN ? AND ? ORDER BY id`,
		[]any{wordindex.BlockID(id, 0), wordindex.BlockID(id+1, 0) - 1}, func(scan func(...any) error) error {
			var block []byte
			err := scan(&block)
			blocks = append(blocks, block)
			return err
		})
	return blocks, err
}

func (w indexWriter) LatestSegments(space int64, limit int) ([]wordindex.Stored, error) {
	return segmentsOf(w.rows, `SELECT id, space, first, span, documents, gone FROM search_segments WHERE space = ? ORDER BY first DESC LIMIT ?`,
		space, limit)
}

func (w indexWriter) SegmentUpTo(space, number int64) (wordindex.Stored, error) {
	found, err := segmentsOf(w.rows, `SELECT id, space, first, span, documents, gone FROM search_segments
		WHERE space = ? AND first <= ? ORDER BY first DESC LIMIT 1`, space, number)
	if err != nil || len(found) == 0 {
		return wordindex.Stored{}, err
	}
	return found[0], nil
}
