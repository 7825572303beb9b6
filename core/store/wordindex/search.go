package wordindex

import (
	"cmp"
	"fmt"
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

// Index searches, and caches what it has read. The zero value is ready; it is safe
// for concurrent use.
type Index struct {
	vocabulary vocabulary
	segments   segmentCache
	signs      signIndex
}

// Search returns the hits of a query, whose text is asked already.
func (x *Index) Search(r Reader, asked search.Query, q library.Query) ([]library.Hit, error) {
	spaces, err := r.Spaces(q.Spaces)
	if err != nil || len(spaces) == 0 {
		return nil, err
	}
	l, err := x.look(r, asked, spaces)
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
	err := l.Documents(candidates, func(id int64, raw []byte) error {
		d, err := search.OpenDocument(raw)
		if err != nil {
			return &Damage{"search document", fmt.Sprint(id), err}
		}
		j := judged{id: id, document: d, near: l.near[id]}
		j.result, _ = l.scorer.Score(d)
		j.result = j.result.Fused(j.near.score, j.near.step)
		if j.result.Score > 0 {
			all = append(all, j)
		}
		return nil
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
	chains, err := l.Outlines(ids)
	if err == nil && len(chains) < len(found) {
		err = &Damage{"search index", "of protocols", errOrphan}
	}
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
