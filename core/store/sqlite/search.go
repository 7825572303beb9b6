package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/search"
)

// minCandidates is how many chains at least are judged, if so many have
// anything to do with the query.
const minCandidates = 50

// The queries of a search.
const (
	readSpaces = `SELECT s.number, s.chains, coalesce((SELECT max(d.id) FROM search_documents d
		WHERE d.id BETWEEN s.number << 32 AND ((s.number + 1) << 32) - 1), 0)
		FROM search_spaces s WHERE s.space IN (SELECT value FROM json_each(?)) AND s.chains > 0 ORDER BY s.number`
	readWords    = `SELECT id, word FROM search_words WHERE id > ? ORDER BY id`
	readPostings = `SELECT rowid FROM search WHERE search MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?`
	readDocument = `SELECT document FROM search_documents WHERE id = ?`
	readOutline  = `SELECT revision, outline FROM chains WHERE key = ?`
)

var searchQueries = []string{
	readSpaces, readWords, readPostings, readDocument, readOutline,
	readModel, readSigns, countSigns, readSample, readVectors, readVectorKeys,
}

// Search implements engine.Searcher.
func (s *Store) Search(ctx context.Context, q engine.Query) ([]engine.Hit, error) {
	asked := search.Ask(q.Text)
	if asked.Blank() || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	var hits []engine.Hit
	// One view, so that a chain replaced meanwhile is found as it was or as it is.
	err := s.view(ctx, searchQueries, func(v *view) error {
		spaces, err := v.visible(q.Spaces)
		if err != nil || len(spaces) == 0 {
			return err
		}
		l, err := v.look(asked, spaces)
		if err != nil {
			return err
		}
		if err := l.sense(q.Embedding); err != nil {
			return err
		}
		judged, err := l.judge(l.best(max(minCandidates, q.Limit+q.Limit/4)))
		if err != nil {
			return err
		}
		hits, err = l.hits(judged[:min(q.Limit, len(judged))], q.Explain)
		return err
	})
	return hits, err
}

// visible is a space that is searched: the range of its search ids.
type visible struct {
	from, to int64
	chains   int
}

func (v *view) visible(spaces []string) ([]visible, error) {
	var all []visible
	err := v.rows(readSpaces, []any{list(spaces)}, func(scan func(...any) error) error {
		var number int64
		var space visible
		err := scan(&number, &space.chains, &space.to)
		space.from = searchID(number, 0)
		all = append(all, space)
		return err
	})
	return all, err
}

// judged is a candidate with its score.
type judged struct {
	id       int64
	document search.Document
	result   search.Result
	near     near // Score 0: the vector says nothing
}

// judge scores the candidates and returns those that match, best first.
func (l *lookup) judge(candidates []int64) ([]judged, error) {
	var all []judged
	for _, id := range candidates {
		var b []byte
		if err := l.row(readDocument, []any{id}, &b); err != nil {
			return nil, err
		}
		d, err := search.ParseDocument(b)
		if err != nil {
			return nil, l.store.damaged("search document", fmt.Sprint(id), err)
		}
		j := judged{id: id, document: d, near: l.near[id]}
		j.result, _ = l.asked.Score(d, l.stats)
		j.result = j.result.Fused(j.near.score, j.near.step)
		if j.result.Score > 0 {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b judged) int {
		return cmp.Or(cmp.Compare(b.result.Score, a.result.Score), cmp.Compare(a.document.Rank(), b.document.Rank()),
			cmp.Compare(a.id, b.id))
	})
	return all, nil
}

// hits reads the chains that were found.
func (l *lookup) hits(found []judged, explain bool) ([]engine.Hit, error) {
	var hits []engine.Hit
	for _, j := range found {
		var row storedChain
		if err := l.row(readOutline, []any{chainOf(j.id)}, &row.revision, &row.document); err != nil {
			return nil, err
		}
		c, err := l.store.chain(fmt.Sprint(chainOf(j.id)), row)
		if err != nil {
			return nil, err
		}
		h := engine.Hit{Chain: c, Step: j.result.Step, Score: j.result.Score}
		if explain {
			for _, m := range l.asked.Explain(j.document, l.stats) {
				h.Why = append(h.Why, engine.Match(m))
			}
			if j.near.score > 0 {
				h.Why = append(h.Why, engine.Match{Ranker: search.RankerVector, Step: j.near.step, Score: j.near.score})
			}
		}
		hits = append(hits, h)
	}
	return hits, nil
}
