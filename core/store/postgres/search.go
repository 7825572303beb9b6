package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

var searchQueries = wordindex.Queries{
	Version:     `SELECT analyser FROM search_state`,
	Spaces:      `SELECT number, chains FROM search_spaces WHERE space = ANY($1) AND chains > 0 ORDER BY number`,
	Segments:    `SELECT id, space, first, span, documents, gone FROM search_segments WHERE space = ANY($1) ORDER BY space, first`,
	Directories: `SELECT id, directory FROM search_segments WHERE id = ANY($1)`,
	Blocks:      `SELECT id, block FROM search_blocks WHERE id = ANY($1)`,
	Words:       `SELECT string_agg(id || ' ' || word, ' ') FROM (SELECT id, word FROM search_words WHERE id > $1 ORDER BY id LIMIT 10000) w`,
	Documents:   `SELECT id, document FROM search_documents WHERE id = ANY($1)`,
	Outlines:    `SELECT d.id, c.revision, c.outline FROM search_documents d JOIN chains c ON c.key = d.chain WHERE d.id = ANY($1)`,
	Model:       `SELECT key, length FROM vector_models WHERE model = $1`,
	Signs:       `SELECT id, vector, signs FROM vector_signs WHERE id > $1 AND model = $2 ORDER BY id`,
	CountSigns:  `SELECT count(*) FROM vector_signs WHERE model = $1`,
	Vectors:     `SELECT vector FROM vectors WHERE key = ANY($1)`,
	VectorsOf: `SELECT d.id, s.position, v.vector FROM vectors v JOIN steps s ON s.passage = v.hash
		JOIN search_documents d ON d.chain = s.chain
		WHERE v.key = ANY($1) AND v.model = $2 AND d.id >> 32 = ANY($3)`,
	VectorKeys: `SELECT v.key FROM search_spaces p JOIN chains c ON c.space = p.space
		JOIN steps s ON s.chain = c.key JOIN vectors v ON v.hash = s.passage WHERE p.number = ANY($1)`,
	Near: `SELECT n.rank - 1, d.id, s.position
		FROM unnest($2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY AS n (space, uuid, passage, rank)
		JOIN steps s ON s.space = n.space AND s.uuid = n.uuid AND s.passage = n.passage
		JOIN search_documents d ON d.chain = s.chain WHERE d.id >> 32 = ANY($1)`,
}

// Search implements library.Searcher.
func (p *Protocols) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	query := search.Ask(q.Text)
	if query.Blank() || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	return p.index.Search(ctx, source{p}, query, q)
}

// source is what the search index is read from.
type source struct{ *Protocols }

// Index implements wordindex.Source. It is one snapshot, so that a chain that is replaced
// meanwhile is found in one of its versions.
func (s source) Index(ctx context.Context, look func(wordindex.Reader) error) error {
	return s.db.view(ctx, func(v *view) error { return look(s.reader(v)) })
}

func (s source) reader(v *view) wordindex.SQLReader {
	return wordindex.SQLReader{
		Queries: &searchQueries,
		Rows: func(query string, args []any, each func(func(...any) error) error) error {
			return v.rows(query, args, each)
		},
		Numbers: func(numbers []int64) any { return numbers },
		Names:   func(names []string) any { return names },
		Steps:   stepColumns,
		Chain: func(id, revision int64, outline []byte) (protocol.Chain, error) {
			return s.db.base().Read(fmt.Sprint(id), tables.StoredChain{Revision: revision, Outline: outline})
		},
	}
}

// stepColumns are steps by column.
func stepColumns(steps []library.NearStep) []any {
	spaces, uuids, passages := make([]string, len(steps)), make([]string, len(steps)), make([][]byte, len(steps))
	for i, s := range steps {
		spaces[i], uuids[i] = s.Space, s.UUID
		if hash, err := hex.DecodeString(s.Passage); err == nil { // else no step has it
			passages[i] = hash
		}
	}
	return []any{spaces, uuids, passages}
}

// indexWriter changes the search index in a transaction that has the lock of
// protocols.
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
	_, err = w.tx.Row(`INSERT INTO search_spaces AS s (number, space, chains, last)
		SELECT coalesce(max(number), 0) + 1, $1, $2, $2 FROM search_spaces
		ON CONFLICT (space) DO UPDATE SET chains = s.chains + excluded.chains, last = s.last + excluded.last RETURNING number, last`,
		[]any{space, n}, &number, &last)
	return number, last, err
}

func (w indexWriter) InsertDocuments(documents []wordindex.Document) error {
	ids, chains, raw := make([]int64, len(documents)), make([]int64, len(documents)), make([][]byte, len(documents))
	for i, d := range documents {
		ids[i], chains[i], raw[i] = d.ID, d.Chain, d.Raw
	}
	return w.tx.Exec(`INSERT INTO search_documents (id, chain, document) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])`,
		ids, chains, raw)
}

func (w indexWriter) NumberWords(words []string) ([]search.Numbered, error) {
	stored, err := wordindex.ReadWords(w.Rows, `SELECT id, word FROM search_words WHERE word = ANY($1)`, words)
	if err != nil || len(stored) == len(words) {
		return stored, err
	}
	known := make(map[string]bool, len(stored))
	for _, word := range stored {
		known[word.Text] = true
	}
	missing := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return known[word] })
	first, err := tables.Numbers(w.tx, len(missing))
	if err != nil {
		return nil, err
	}
	added, err := wordindex.ReadWords(w.Rows, `INSERT INTO search_words (id, word)
		SELECT $1 + rank - 1, word FROM unnest($2::text[]) WITH ORDINALITY AS given (word, rank) RETURNING id, word`, first, missing)
	return append(stored, added...), err
}

func (w indexWriter) InsertSegment(row wordindex.Stored, made wordindex.Segment) error {
	id, err := tables.Numbers(w.tx, 1)
	if err != nil {
		return err
	}
	if err := w.tx.Exec(`INSERT INTO search_segments (id, space, first, span, documents, directory) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, row.Space, row.First, row.Span, row.Documents, append([]byte{}, made.Directory...)); err != nil {
		return err
	}
	if len(made.Blocks) == 0 {
		return nil
	}
	return w.tx.Exec(`INSERT INTO search_blocks (id, block) SELECT $1 + rank - 1, block FROM unnest($2::bytea[]) WITH ORDINALITY AS made (block, rank)`,
		wordindex.BlockID(id, 0), made.Blocks)
}

func (w indexWriter) Chains(after int64, limit int) (all []wordindex.Keyed, err error) {
	err = w.tx.Rows(`SELECT key, revision, outline, texts FROM chains WHERE key > $1 ORDER BY key LIMIT $2`,
		[]any{after, limit}, func(scan func(...any) error) error {
			var key, revision int64
			var outline, texts []byte
			if err := scan(&key, &revision, &outline, &texts); err != nil {
				return err
			}
			c, err := record.ReadChain(revision, outline, texts)
			if err != nil {
				return &wordindex.Damage{What: "chain", ID: fmt.Sprint(key), Err: err}
			}
			all = append(all, wordindex.Keyed{Key: key, Chain: c})
			return nil
		})
	return all, err
}
