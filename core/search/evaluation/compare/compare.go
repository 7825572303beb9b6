// Package compare puts the labelled queries of testdata/search to KAIROS and to
// two search engines that many programs use. It is a module of its own, so that
// KAIROS does not depend on them.
package compare

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/search/query"
	_ "modernc.org/sqlite" // the driver "sqlite", which has FTS5

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// column is a part of a protocol that is indexed, with its weight in the rank.
// Both engines index the same ones with the same weights.
type column struct {
	name   string
	weight float64
	text   func(protocol.Chain) string
}

var columns = []column{
	{"title", 4, func(c protocol.Chain) string { return strings.Join([]string{c.Title, c.AltTitle, c.Slug}, "\n") }},
	{"triggers", 4, func(c protocol.Chain) string { return strings.Join(c.Triggers, "\n") }},
	{"labels", 2, func(c protocol.Chain) string {
		return ofSteps(c, func(s protocol.Step) string { return s.Label })
	}},
	{"tags", 2, func(c protocol.Chain) string {
		return strings.Join(c.Tags, " ") + "\n" + ofSteps(c, func(s protocol.Step) string { return strings.Join(s.Tags, " ") })
	}},
	{"body", 1, func(c protocol.Chain) string {
		return c.Description + "\n" + ofSteps(c, func(s protocol.Step) string { return s.Text })
	}},
}

func ofSteps(c protocol.Chain, part func(protocol.Step) string) string {
	var b strings.Builder
	for _, s := range c.Steps {
		b.WriteString(part(s) + "\n")
	}
	return b.String()
}

// FTS5 searches with SQLite's full-text index: words stemmed by its Porter
// tokenizer, any of them matches, and bm25 ranks.
type FTS5 struct {
	db     *sql.DB
	titles []string // by rowid
	search string
}

// NewFTS5 indexes the protocols in memory.
func NewFTS5(ctx context.Context, chains []protocol.Chain) (_ *FTS5, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("open a database in memory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	var names, marks, weights []string
	for _, c := range columns {
		names, marks, weights = append(names, c.name), append(marks, "?"), append(weights, fmt.Sprint(c.weight))
	}
	f := &FTS5{db: db, search: fmt.Sprintf(
		"SELECT rowid, -bm25(protocols, %s) AS score FROM protocols WHERE protocols MATCH ? ORDER BY score DESC, rowid LIMIT ?",
		strings.Join(weights, ", "))}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(
		"CREATE VIRTUAL TABLE protocols USING fts5(%s, tokenize = 'porter unicode61 remove_diacritics 2')", strings.Join(names, ", "))); err != nil {
		return nil, fmt.Errorf("create the full-text index: %w", err)
	}
	insert := fmt.Sprintf("INSERT INTO protocols (rowid, %s) VALUES (?, %s)", strings.Join(names, ", "), strings.Join(marks, ", "))
	for i, chain := range chains {
		values := []any{i}
		for _, c := range columns {
			values = append(values, c.text(chain))
		}
		if _, err := db.ExecContext(ctx, insert, values...); err != nil {
			return nil, fmt.Errorf("index protocol %q: %w", chain.Title, err)
		}
		f.titles = append(f.titles, chain.Title)
	}
	return f, nil
}

// Close frees the index.
func (f *FTS5) Close() error { return f.db.Close() }

// Search returns hits, best first. Their scores only rank.
func (f *FTS5) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	words := strings.FieldsFunc(q.Text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		return nil, nil
	}
	rows, err := f.db.QueryContext(ctx, f.search, `"`+strings.Join(words, `" OR "`)+`"`, q.Limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var hits []library.Hit
	for rows.Next() {
		var id int
		var score float64
		if err := rows.Scan(&id, &score); err != nil {
			return nil, err
		}
		hits = append(hits, library.Hit{Chain: protocol.Chain{Title: f.titles[id]}, Score: score})
	}
	return hits, rows.Err()
}

// Bleve searches with bleve and its analyser for English; any word matches.
type Bleve struct{ index bleve.Index }

// NewBleve indexes the protocols in memory.
func NewBleve(chains []protocol.Chain) (_ *Bleve, err error) {
	mapping := bleve.NewIndexMapping()
	mapping.DefaultAnalyzer = en.AnalyzerName
	index, err := bleve.NewMemOnly(mapping)
	if err != nil {
		return nil, fmt.Errorf("create bleve's index: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, index.Close())
		}
	}()
	batch := index.NewBatch()
	for _, chain := range chains {
		document := map[string]any{}
		for _, c := range columns {
			document[c.name] = c.text(chain)
		}
		if err := batch.Index(chain.Title, document); err != nil {
			return nil, fmt.Errorf("index protocol %q: %w", chain.Title, err)
		}
	}
	if err := index.Batch(batch); err != nil {
		return nil, fmt.Errorf("write bleve's index: %w", err)
	}
	return &Bleve{index}, nil
}

// Close frees the index.
func (b *Bleve) Close() error { return b.index.Close() }

// Search returns hits, best first. Their scores only rank.
func (b *Bleve) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	var fields []query.Query
	for _, c := range columns {
		match := bleve.NewMatchQuery(q.Text)
		match.SetField(c.name)
		match.SetBoost(c.weight)
		fields = append(fields, match)
	}
	found, err := b.index.SearchInContext(ctx, bleve.NewSearchRequestOptions(bleve.NewDisjunctionQuery(fields...), q.Limit, 0, false))
	if err != nil {
		return nil, err
	}
	var hits []library.Hit
	for _, h := range found.Hits {
		hits = append(hits, library.Hit{Chain: protocol.Chain{Title: h.ID}, Score: h.Score})
	}
	return hits, nil
}
