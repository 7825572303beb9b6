package wordindex

import (
	"cmp"
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

// The numbers of candidates: at least minCandidates by all their words, and
// namedCandidates by the words of their names, because a complete title says more
// than many words in texts.
const (
	minCandidates   = 30
	namedCandidates = 15
)

// Index searches, and caches what it has read. It is safe for concurrent use.
type Index struct {
	vocabulary vocabulary
	segments   segmentCache
	found      documentCache
	signs      signIndex
}

// New returns an index that has read nothing yet.
func New() *Index { return &Index{found: newDocumentCache()} }

// Source is a store whose index is searched.
type Source interface {
	// Index calls look with a snapshot of the index.
	Index(ctx context.Context, look func(Reader) error) error
}

// Search returns the hits of a query, whose text is asked already.
func (x *Index) Search(ctx context.Context, s Source, asked search.Query, q library.Query) (hits []library.Hit, err error) {
	if q.Named {
		asked, q.Embedding, q.Near = asked.Named(), nil, nil
	}
	err = s.Index(ctx, func(r Reader) error {
		if err := checkVersion(r.Version()); err != nil {
			return err
		}
		hits, err = x.search(r, asked, q)
		return err
	})
	return hits, err
}

func (x *Index) search(r Reader, asked search.Query, q library.Query) ([]library.Hit, error) {
	spaces, err := r.Spaces(q.Spaces)
	if err != nil || len(spaces) == 0 {
		return nil, err
	}
	l, err := x.lookUp(r, asked, spaces)
	if err != nil {
		return nil, err
	}
	if err := l.sense(q); err != nil {
		return nil, err
	}
	judged, err := l.judge(l.best(max(minCandidates, q.Limit+q.Limit/4)))
	if err != nil {
		return nil, err
	}
	return l.hits(judged[:min(q.Limit, len(judged))], q.Explain)
}

// judged is a candidate with its score.
type judged struct {
	id       int64
	document search.Document
	result   search.Result
	near     near // Score 0: no match by vector
}

// judge scores the candidates and returns those that match, best first.
func (l *lookup) judge(candidates []int64) ([]judged, error) {
	var all []judged
	err := l.documentsOf(candidates, func(id int64, d search.Document) {
		j := judged{id: id, document: d, near: l.near[id]}
		j.result, _ = l.scorer.Score(d)
		j.result = j.result.Fused(j.near.score, j.near.step)
		if j.result.Score > 0 {
			all = append(all, j)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b judged) int {
		return cmp.Or(cmp.Compare(b.result.Score, a.result.Score), cmp.Compare(a.document.Rank(), b.document.Rank()),
			cmp.Compare(a.id, b.id))
	})
	return all, nil
}

// hits reads the chains that were found.
func (l *lookup) hits(found []judged, explain bool) ([]library.Hit, error) {
	ids := make([]int64, len(found))
	for i, j := range found {
		ids[i] = j.id
	}
	chains, err := l.outlinesOf(ids)
	if err != nil {
		return nil, err
	}
	var hits []library.Hit
	for _, j := range found {
		h := library.Hit{Chain: chains[j.id], Step: j.result.Step, Score: j.result.Score}
		if explain {
			h.Why = l.explain(j)
		}
		hits = append(hits, h)
	}
	return hits, nil
}

func (l *lookup) explain(j judged) []library.Match {
	var why []library.Match
	for _, m := range l.scorer.Explain(j.document) {
		why = append(why, library.Match(m))
	}
	if j.near.score > 0 {
		why = append(why, library.Match{Ranker: search.RankerVector, Step: j.near.step, Score: j.near.score})
	}
	return why
}
