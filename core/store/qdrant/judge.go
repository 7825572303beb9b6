package qdrant

import (
	"cmp"
	"context"
	"encoding/base64"
	"runtime"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

// judged is a candidate with its score.
type judged struct {
	hit  library.Hit // without its chain
	rank uint64      // among equals
	candidate
}

// judge scores the candidates and returns the best ones, in order and confirmed by
// their manifests.
func (l *lookup) judge(ctx context.Context, limit int, explain bool) ([]library.Hit, error) {
	if err := l.readDocuments(ctx); err != nil {
		return nil, err
	}
	found := l.scoreAll(explain)
	slices.SortFunc(found, func(a, b judged) int {
		return cmp.Or(cmp.Compare(b.hit.Score, a.hit.Score), cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key))
	})
	var hits []library.Hit
	var err error
	for len(found) > 0 && len(hits) < limit {
		n := min(len(found), limit-len(hits))
		if hits, err = l.confirm(ctx, hits, found[:n]); err != nil {
			return nil, err
		}
		found = found[n:]
	}
	return hits, nil
}

// confirm appends the candidates whose manifests are current. Others are
// uncommitted or replaced.
func (l *lookup) confirm(ctx context.Context, hits []library.Hit, found []judged) ([]library.Hit, error) {
	s := l.store
	keys := make([]string, len(found))
	for i, j := range found {
		keys[i] = j.key
	}
	points, err := s.server.get(ctx, s.server.names.protocols(), keys, fieldKind, fieldSpace, fieldRevision, fieldToken, fieldOutline)
	if err != nil {
		return nil, err
	}
	manifests := make(map[string]manifest, len(points))
	for _, p := range points {
		m, err := s.server.manifestOf(p)
		if err != nil {
			return nil, err
		}
		manifests[m.key] = m
	}
	for _, j := range found {
		m, ok := manifests[j.key]
		if !ok || !m.live() || m.token != j.token || !slices.Contains(l.spaces, m.space) {
			continue
		}
		if j.hit.Chain, err = s.server.outlined(m); err != nil {
			return nil, err
		}
		hits = append(hits, j.hit)
	}
	return hits, nil
}

// readDocuments reads the words of candidates that were found by a step.
func (l *lookup) readDocuments(ctx context.Context) error {
	at := map[string]int{}
	var missing []string
	for i, c := range l.found {
		if c.document == "" {
			at[c.id] = i
			missing = append(missing, c.id)
		}
	}
	points, err := l.store.server.get(ctx, l.store.server.names.index(), missing, fieldWords)
	for _, p := range points {
		l.found[at[p.GetId().GetUuid()]].document = p.GetPayload()[fieldWords].GetStringValue()
	}
	if err != nil {
		return err
	}
	return l.analyseForeign(ctx)
}

// analyseForeign analyses chains that a program with another analyser has stored,
// without their texts, until the index is rebuilt.
func (l *lookup) analyseForeign(ctx context.Context) error {
	at := map[string]int{}
	var keys []string
	for i, c := range l.found {
		if b, err := base64.StdEncoding.DecodeString(c.document[:min(len(c.document), 4)]); err == nil && len(b) > 0 && b[0] != search.Version {
			at[c.key] = i
			keys = append(keys, c.key)
		}
	}
	points, err := l.store.server.get(ctx, l.store.server.names.protocols(), keys, fieldKind, fieldOutline)
	if err != nil {
		return err
	}
	for _, p := range points {
		m, err := l.store.server.manifestOf(p)
		if err != nil {
			return err
		}
		c, err := l.store.server.outlined(m)
		if err != nil {
			return err
		}
		l.found[at[m.key]].document = analyse(c).document
	}
	return nil
}

// scoreAll scores the candidates on all processors.
func (l *lookup) scoreAll(explain bool) []judged {
	scored := make([]judged, len(l.found))
	matches := make([]bool, len(l.found))
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(l.found); i += workers {
				scored[i], matches[i] = l.score(l.found[i], explain)
			}
		})
	}
	wait.Wait()
	var found []judged
	for i, ok := range matches {
		if ok {
			found = append(found, scored[i])
		}
	}
	return found
}

// opened decodes the document of a candidate, if it has one.
func opened(document string) (search.Document, bool) {
	b, err := base64.StdEncoding.DecodeString(document)
	if err != nil {
		return search.Document{}, false
	}
	d, err := search.OpenDocument(b)
	return d, err == nil
}

func (l *lookup) score(c candidate, explain bool) (judged, bool) {
	d, ok := opened(c.document)
	if !ok {
		return judged{}, false // found by a step, and deleted meanwhile
	}
	result, byWords := l.query.Score(d, l.stats)
	vector, step := l.vectorScore(c)
	if !byWords && vector == 0 {
		return judged{}, false
	}
	hit := library.Hit{Step: result.Step, Score: search.Fuse(result.Score, vector)}
	if vector > result.Score {
		hit.Step = step
	}
	if explain {
		hit.Why = l.why(d, byWords, vector, step)
	}
	return judged{hit, d.Rank(), c}, true
}

// vectorScore is the score of the nearest step of a chain.
func (l *lookup) vectorScore(c candidate) (score float64, step int) {
	for _, near := range l.steps[c.id] {
		if v := l.background.Score(near.cosine); v > score {
			score, step = v, near.step
		}
	}
	return score, step
}

func (l *lookup) why(d search.Document, byWords bool, vector float64, step int) []library.Match {
	var why []library.Match
	if byWords {
		for _, m := range l.query.Explain(d, l.stats) {
			why = append(why, library.Match(m))
		}
	}
	if vector > 0 {
		why = append(why, library.Match{Ranker: search.RankerVector, Step: step, Score: vector})
	}
	return why
}
