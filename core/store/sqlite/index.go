package sqlite

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexWriter changes the search index in a transaction.
type indexWriter struct {
	wordindex.Tables
	tx *transaction
}

func newIndexWriter(tx *transaction) wordindex.Writer {
	rows := func(query string, args []any, each func(func(...any) error) error) error {
		return tx.rows(query, args, each)
	}
	return indexWriter{wordindex.Tables{Rows: rows, Exec: tx.exec}, tx}
}

func (w indexWriter) Extend(space string, n int64) (number, last int64, err error) {
	_, err = w.tx.row(`INSERT INTO search_spaces (space, chains, last) VALUES (?1, ?2, ?2)
		ON CONFLICT (space) DO UPDATE SET chains = chains + ?2, last = last + ?2 RETURNING number, last`,
		[]any{space, n}, &number, &last)
	return number, last, err
}

func (w indexWriter) InsertDocuments(documents []wordindex.Document) error {
	var values []any
	for _, d := range documents {
		values = append(values, d.ID, d.Chain, d.Raw)
	}
	return w.tx.insert(`search_documents (id, chain, document)`, 3, values)
}

func (w indexWriter) NumberWords(words []string) ([]search.Numbered, error) {
	if err := w.tx.exec(`INSERT OR IGNORE INTO search_words (word) SELECT value FROM json_each(?)`, list(words)); err != nil {
		return nil, err
	}
	return wordindex.ReadWords(w.Rows, `SELECT w.id, w.word FROM json_each(?) j CROSS JOIN search_words w ON w.word = j.value`, list(words))
}

func (w indexWriter) InsertSegment(row wordindex.Stored, made wordindex.Segment) error {
	var id int64
	if _, err := w.tx.row(`INSERT INTO search_segments (space, first, span, documents, directory) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		[]any{row.Space, row.First, row.Span, row.Documents, append([]byte{}, made.Directory...)}, &id); err != nil {
		return err
	}
	var blocks []any
	for i, block := range made.Blocks {
		blocks = append(blocks, wordindex.BlockID(id, i), block)
	}
	return w.tx.insert(`search_blocks (id, block)`, 2, blocks)
}

func (w indexWriter) Marked(limit int) (all []wordindex.Marked, err error) {
	err = w.tx.rows(`SELECT u.chain, c.revision, c.outline, t.texts FROM unindexed u LEFT JOIN chains c ON c.key = u.chain
		LEFT JOIN texts t ON t.chain = c.key ORDER BY u.chain LIMIT ?`, []any{limit}, func(scan func(...any) error) error {
		var key int64
		var revision *int64
		var row storedChain
		if err := scan(&key, &revision, &row.outline, &row.texts); err != nil || revision == nil {
			all = append(all, wordindex.Marked{Key: key})
			return err
		}
		row.revision = *revision
		c, err := row.read()
		if err != nil {
			return &wordindex.Damage{What: "chain", ID: fmt.Sprint(key), Err: err}
		}
		all = append(all, wordindex.Marked{Key: key, Chain: &c})
		return nil
	})
	return all, err
}
