package sqlite

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// searchQueries are the queries of a search. CROSS JOIN fixes their order.
var searchQueries = wordindex.Queries{
	Version:     `SELECT analyser FROM search_state`,
	Spaces:      `SELECT number, chains FROM search_spaces WHERE space IN (SELECT value FROM json_each(?)) AND chains > 0 ORDER BY number`,
	Segments:    `SELECT id, space, first, span, documents, gone FROM search_segments WHERE space IN (SELECT value FROM json_each(?)) ORDER BY space, first`,
	Directories: `SELECT id, directory FROM search_segments WHERE id IN (SELECT value FROM json_each(?))`,
	Blocks:      `SELECT id, block FROM search_blocks WHERE id IN (SELECT value FROM json_each(?))`,
	Words:       `SELECT group_concat(id || ' ' || word, ' ') FROM (SELECT id, word FROM search_words WHERE id > ? ORDER BY id LIMIT 10000)`,
	Documents:   `SELECT id, document FROM search_documents WHERE id IN (SELECT value FROM json_each(?))`,
	Outlines: `SELECT d.id, c.revision, c.outline FROM search_documents d CROSS JOIN chains c ON c.key = d.chain
		WHERE d.id IN (SELECT value FROM json_each(?))`,
	Model:      `SELECT key, length FROM vector_models WHERE model = ?`,
	Signs:      `SELECT id, vector, signs FROM vector_signs WHERE id > ? AND model = ? ORDER BY id`,
	CountSigns: `SELECT count(*) FROM vector_signs WHERE model = ?`,
	Vectors:    `SELECT vector FROM vectors WHERE key IN (SELECT value FROM json_each(?))`,
	VectorsOf: `SELECT d.id, s.position, v.vector
		FROM json_each(?1) k CROSS JOIN vectors v ON v.key = k.value CROSS JOIN steps s ON s.passage = substr(v.hash, 1, 16)
		CROSS JOIN search_documents d ON d.chain = s.chain
		WHERE v.model = ?2 AND d.id >> 32 IN (SELECT value FROM json_each(?3))`,
	VectorKeys: `SELECT v.key FROM json_each(?) n CROSS JOIN search_spaces p ON p.number = n.value
		CROSS JOIN chains c ON c.space = p.space CROSS JOIN steps s ON s.chain = c.key CROSS JOIN vectors v ON substr(v.hash, 1, 16) = s.passage`,
	Near: `SELECT n.key, d.id, s.position
		FROM json_each(?2) n CROSS JOIN steps s ON s.uuid = step_key(n.value ->> 0) CROSS JOIN chains c ON c.key = s.chain
		CROSS JOIN search_documents d ON d.chain = c.key
		WHERE c.space = n.value ->> 1 AND s.passage = substr(unhex(n.value ->> 2), 1, 16) AND d.id >> 32 IN (SELECT value FROM json_each(?1))`,
}

// searchStatements are all of them, to be prepared.
var searchStatements = func(q wordindex.Queries) []string {
	return []string{
		q.Version, q.Spaces, q.Segments, q.Directories, q.Blocks, q.Words, q.Documents, q.Outlines,
		q.Model, q.Signs, q.CountSigns, q.Vectors, q.VectorsOf, q.VectorKeys, q.Near,
	}
}(searchQueries)

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
	return s.db.view(ctx, searchStatements, func(v *view) error { return look(s.reader(v)) })
}

func (s source) reader(v *view) wordindex.SQLReader {
	return wordindex.SQLReader{
		Queries: &searchQueries,
		Rows: func(query string, args []any, each func(func(...any) error) error) error {
			return v.rows(query, args, each)
		},
		Numbers: func(numbers []int64) any { return list(numbers) },
		Names:   func(names []string) any { return list(names) },
		Steps: func(steps []library.NearStep) []any {
			found := make([][3]string, len(steps))
			for i, step := range steps {
				found[i] = [3]string{step.UUID, step.Space, step.Passage}
			}
			return []any{list(found)}
		},
		Chain: func(id, revision int64, outline []byte) (protocol.Chain, error) {
			return s.db.base().Read(fmt.Sprint(id), tables.StoredChain{Revision: revision, Outline: outline})
		},
	}
}
