package sqlite

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// indexWriter changes the search index in a transaction.
type indexWriter struct {
	wordindex.Tables
	tx tables.Transaction
}

func newIndexWriter(tx tables.Transaction) wordindex.Writer {
	rows := func(query string, args []any, each func(func(...any) error) error) error {
		return tx.Rows(query, args, each)
	}
	return indexWriter{wordindex.Tables{Rows: rows, Exec: tx.Exec}, tx}
}

func (w indexWriter) Extend(space string, n int64) (number, last int64, err error) {
	_, err = w.tx.Row(`INSERT INTO search_spaces (space, chains, last) VALUES (?1, ?2, ?2)
		ON CONFLICT (space) DO UPDATE SET chains = chains + ?2, last = last + ?2 RETURNING number, last`,
		[]any{space, n}, &number, &last)
	return number, last, err
}

func (w indexWriter) InsertDocuments(documents []wordindex.Document) error {
	var values []any
	for _, d := range documents {
		values = append(values, d.ID, d.Chain, d.Raw)
	}
	return insert(w.tx, `search_documents (id, chain, document)`, 3, values)
}

func (w indexWriter) NumberWords(words []string) ([]search.Numbered, error) {
	if err := w.tx.Exec(`INSERT OR IGNORE INTO search_words (word) SELECT value FROM json_each(?)`, list(words)); err != nil {
		return nil, err
	}
	return wordindex.ReadWords(w.Rows, `SELECT w.id, w.word FROM json_each(?) j CROSS JOIN search_words w ON w.word = j.value`, list(words))
}

func (w indexWriter) InsertSegment(row wordindex.Stored, made wordindex.Segment) error {
	var id int64
	if _, err := w.tx.Row(`INSERT INTO search_segments (space, first, span, documents, directory) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		[]any{row.Space, row.First, row.Span, row.Documents, append([]byte{}, made.Directory...)}, &id); err != nil {
		return err
	}
	var blocks []any
	for i, block := range made.Blocks {
		blocks = append(blocks, wordindex.BlockID(id, i), block)
	}
	return insert(w.tx, `search_blocks (id, block)`, 2, blocks)
}

func (w indexWriter) Chains(after int64, limit int) (all []wordindex.Keyed, err error) {
	err = w.tx.Rows(`SELECT c.key, c.revision, c.outline, t.texts FROM chains c JOIN texts t ON t.chain = c.key
		WHERE c.key > ? ORDER BY c.key LIMIT ?`, []any{after, limit}, func(scan func(...any) error) error {
		var key int64
		var row tables.StoredChain
		if err := scan(&key, &row.Revision, &row.Outline, &row.Texts); err != nil {
			return err
		}
		c, err := row.Read(pack.Unpack)
		if err != nil {
			return &wordindex.Damage{What: "chain", ID: fmt.Sprint(key), Err: err}
		}
		all = append(all, wordindex.Keyed{Key: key, Chain: c})
		return nil
	})
	return all, err
}
