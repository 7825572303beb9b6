package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// The queries of a search.
const (
	readSpaces      = `SELECT number, chains FROM search_spaces WHERE space IN (SELECT value FROM json_each(?)) AND chains > 0 ORDER BY number`
	readSegments    = `SELECT id, space, first, span, documents, gone FROM search_segments WHERE space IN (SELECT value FROM json_each(?)) ORDER BY space, first`
	readDirectories = `SELECT id, directory FROM search_segments WHERE id IN (SELECT value FROM json_each(?))`
	readBlocks      = `SELECT id, block FROM search_blocks WHERE id IN (SELECT value FROM json_each(?))`
	readWords       = `SELECT max(id), group_concat(word, ' ') FROM (SELECT id, word FROM search_words WHERE id > ? ORDER BY id LIMIT 10000)`
	readDocuments   = `SELECT id, document FROM search_documents WHERE id IN (SELECT value FROM json_each(?))`
	readOutlines    = `SELECT d.id, c.revision, c.outline FROM search_documents d CROSS JOIN chains c ON c.key = d.chain
		WHERE d.id IN (SELECT value FROM json_each(?))`

	readModel   = `SELECT key, length FROM vector_models WHERE model = ?`
	readSigns   = `SELECT id, vector, signs FROM vector_signs WHERE id > ? AND model = ? ORDER BY id`
	countSigns  = `SELECT count(*) FROM vector_signs WHERE model = ?`
	readSample  = `SELECT vector FROM vectors WHERE key IN (SELECT value FROM json_each(?))`
	readVectors = `SELECT d.id, s.position, v.vector
		FROM json_each(?1) k CROSS JOIN vectors v ON v.key = k.value CROSS JOIN steps s ON s.passage = v.hash
		CROSS JOIN search_documents d ON d.chain = s.chain
		WHERE v.model = ?2 AND d.id >> 32 IN (SELECT value FROM json_each(?3))`
	readVectorKeys = `SELECT v.key FROM json_each(?) n CROSS JOIN search_spaces p ON p.number = n.value
		CROSS JOIN chains c ON c.space = p.space CROSS JOIN steps s ON s.chain = c.key CROSS JOIN vectors v ON v.hash = s.passage`
)

var searchQueries = []string{
	readSpaces, readSegments, readDirectories, readBlocks, readWords, readDocuments, readOutlines,
	readModel, readSigns, countSigns, readSample, readVectors, readVectorKeys,
}

// Search implements library.Searcher.
func (p *Protocols) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	query := search.Ask(q.Text)
	if query.Blank() || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	var hits []library.Hit
	// One snapshot, so that a chain that is replaced meanwhile is found in one of its versions.
	err := p.db.view(ctx, searchQueries, func(v *view) (err error) {
		hits, err = p.index.Search(indexReader{v}, query, q)
		return err
	})
	return hits, err
}

// indexReader reads the search index in a snapshot.
type indexReader struct{ *view }

var _ wordindex.Reader = indexReader{}

func (r indexReader) Spaces(names []string) (all []wordindex.Space, err error) {
	err = r.rows(readSpaces, []any{list(names)}, func(scan func(...any) error) error {
		var space wordindex.Space
		err := scan(&space.Number, &space.Chains)
		all = append(all, space)
		return err
	})
	return all, err
}

func (r indexReader) Segments(spaces []int64) ([]wordindex.Stored, error) {
	return segmentsOf(r.rows, readSegments, list(spaces))
}

func (r indexReader) Directories(segments []int64, each func(int64, []byte) error) error {
	return r.eachBytes(readDirectories, segments, each)
}

func (r indexReader) Blocks(ids []int64, each func(int64, []byte) error) error {
	return r.eachBytes(readBlocks, ids, each)
}

func (r indexReader) Documents(ids []int64, each func(int64, []byte) error) error {
	return r.eachBytes(readDocuments, ids, each)
}

func (r indexReader) eachBytes(query string, ids []int64, each func(id int64, raw []byte) error) error {
	return r.rows(query, []any{list(ids)}, func(scan func(...any) error) error {
		var id int64
		var raw []byte
		if err := scan(&id, &raw); err != nil {
			return err
		}
		return each(id, raw)
	})
}

// Words reads one row for many words, because a row costs more than what is in it.
func (r indexReader) Words(after int64) (int64, []string, error) {
	var last *int64
	var read *string
	if err := r.row(readWords, []any{after}, &last, &read); err != nil || last == nil {
		return after, nil, err
	}
	return *last, strings.Split(*read, " "), nil
}

func (r indexReader) Outlines(documents []int64) (map[int64]protocol.Chain, error) {
	chains := make(map[int64]protocol.Chain, len(documents))
	err := r.rows(readOutlines, []any{list(documents)}, func(scan func(...any) error) error {
		var id int64
		var row storedChain
		if err := scan(&id, &row.revision, &row.document); err != nil {
			return err
		}
		c, err := r.db.chain(fmt.Sprint(id), row)
		chains[id] = c
		return err
	})
	return chains, err
}

func (r indexReader) Model(name string) (model int64, length int, err error) {
	err = r.row(readModel, []any{name}, &model, &length)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return model, length, err
}

func (r indexReader) Signs(model, after int64, each func(id, vector int64, signs []byte) error) error {
	return r.rows(readSigns, []any{after, model}, func(scan func(...any) error) error {
		var id, vector int64
		var signs []byte
		if err := scan(&id, &vector, &signs); err != nil {
			return err
		}
		return each(id, vector, signs)
	})
}

func (r indexReader) CountSigns(model int64) (n int, err error) {
	err = r.row(countSigns, []any{model}, &n)
	return n, err
}

func (r indexReader) Vectors(keys []int64, each func([]byte) error) error {
	return r.rows(readSample, []any{list(keys)}, func(scan func(...any) error) error {
		var raw []byte
		if err := scan(&raw); err != nil {
			return err
		}
		return each(raw)
	})
}

func (r indexReader) VectorsOf(keys []int64, model int64, spaces []int64, each func(int64, int, []byte) error) error {
	return r.rows(readVectors, []any{list(keys), model, list(spaces)}, func(scan func(...any) error) error {
		var document int64
		var step int
		var raw []byte
		if err := scan(&document, &step, &raw); err != nil {
			return err
		}
		return each(document, step, raw)
	})
}

func (r indexReader) VectorKeys(spaces []int64) (keys []int64, err error) {
	err = r.rows(readVectorKeys, []any{list(spaces)}, func(scan func(...any) error) error {
		var key int64
		err := scan(&key)
		keys = append(keys, key)
		return err
	})
	return keys, err
}

// segmentsOf reads segments without their terms.
func segmentsOf(rows func(string, []any, eachRow) error, query string, args ...any) (all []wordindex.Stored, err error) {
	err = rows(query, args, func(scan func(...any) error) error {
		var s wordindex.Stored
		err := scan(&s.ID, &s.Space, &s.First, &s.Span, &s.Documents, &s.Gone)
		all = append(all, s)
		return err
	})
	return all, err
}
