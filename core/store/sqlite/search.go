package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/pack"
)

// The numbers of candidates: at least minCandidates by all their words, and
// namedCandidates by the words of their names, because a complete title says more
// than many words in texts.
const (
	minCandidates   = 30
	namedCandidates = 15
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
)

var searchQueries = []string{
	readSpaces, readSegments, readDirectories, readBlocks, readWords, readDocuments, readOutlines,
	readModel, readSigns, countSigns, readSample, readVectors, readVectorKeys, readNear,
}

// Search implements library.Searcher.
func (p *Protocols) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	query := search.Ask(q.Text)
	if query.Blank() || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	var hits []library.Hit
	// One snapshot, so that a chain that is replaced meanwhile is found in one of its versions.
	err := p.db.view(ctx, searchQueries, func(v *view) error {
		spaces, err := v.visible(q.Spaces)
		if err != nil || len(spaces) == 0 {
			return err
		}
		l, err := p.look(v, query, spaces)
		if err != nil {
			return err
		}
		if err := l.sense(q); err != nil {
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

// visible is a space that is searched.
type visible struct {
	number int64
	chains int
}

func (v *view) visible(spaces []string) ([]visible, error) {
	var all []visible
	err := v.rows(readSpaces, []any{list(spaces)}, func(scan func(...any) error) error {
		var space visible
		err := scan(&space.number, &space.chains)
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
	near     near // Score 0: no match by vector
}

// judge scores the candidates and returns those that match, best first.
func (l *lookup) judge(candidates []int64) ([]judged, error) {
	var all []judged
	err := l.rows(readDocuments, []any{list(candidates)}, func(scan func(...any) error) error {
		var id int64
		var packed []byte
		if err := scan(&id, &packed); err != nil {
			return err
		}
		raw, err := pack.Unpack(packed)
		if err != nil {
			return l.db.damaged("search document", fmt.Sprint(id), err)
		}
		d, err := search.OpenDocument(raw)
		if err != nil {
			return l.db.damaged("search document", fmt.Sprint(id), err)
		}
		j := judged{id: id, document: d, near: l.near[id]}
		j.result, _ = l.query.Score(d, l.stats)
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
	chains, err := l.outlines(found)
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

func (l *lookup) outlines(found []judged) (map[int64]protocol.Chain, error) {
	ids := make([]int64, len(found))
	for i, j := range found {
		ids[i] = j.id
	}
	chains := make(map[int64]protocol.Chain, len(found))
	err := l.rows(readOutlines, []any{list(ids)}, func(scan func(...any) error) error {
		var id int64
		var row storedChain
		if err := scan(&id, &row.revision, &row.outline); err != nil {
			return err
		}
		c, err := l.protocols.outline(fmt.Sprint(id), row)
		chains[id] = c
		return err
	})
	if err == nil && len(chains) < len(found) {
		err = l.db.damaged("search index", "of protocols", errOrphan)
	}
	return chains, err
}

// errOrphan reports that the search index has a chain that is not stored.
var errOrphan = errors.New("a protocol that is not stored is in the search index")

func (l *lookup) explain(j judged) []library.Match {
	var why []library.Match
	for _, m := range l.query.Explain(j.document, l.stats) {
		why = append(why, library.Match(m))
	}
	if j.near.score > 0 {
		why = append(why, library.Match{Ranker: search.RankerVector, Step: j.near.step, Score: j.near.score})
	}
	return why
}
