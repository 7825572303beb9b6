package qdrant

import (
	"cmp"
	"context"
	"encoding/base64"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/search"
)

const (
	// candidates is how many chains are read and judged.
	candidates = 60
	// counted is up to how many chains with a word are counted; more are
	// estimated from how much the server says the word tells.
	counted = 100
	// nearest is how many steps are compared by their vectors, sampled how many
	// tell what similarity means nothing.
	nearest, sampled = 200, 64
	// completed and corrected are how many words stand in for one of the query,
	// looked how many are looked at for that.
	completed, corrected, looked = 40, 20, 200
	// countsFresh is how long the number of protocols is believed.
	countsFresh = 5 * time.Second
)

// Search implements engine.Searcher. The server finds candidates by their
// terms and vectors; what they are worth is core/search's to say, by the
// manifests, so that what is not committed or was replaced is never seen.
func (s *Store) Search(ctx context.Context, q engine.Query) ([]engine.Hit, error) {
	asked := search.Ask(q.Text)
	if asked.Blank() && q.Embedding == nil || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	total, err := s.chainsIn(ctx, q.Spaces)
	if err != nil || total == 0 {
		return nil, err
	}
	l := &lookup{store: s, spaces: q.Spaces, asked: asked, words: asked.Words(), stats: search.Stats{Chains: total}}
	if x := s.schema.index.Load(); q.Embedding != nil && q.Embedding.Model == x.model && len(q.Embedding.Vector) == x.dimension {
		l.vector = q.Embedding.Vector
	}
	if err := l.find(ctx); err != nil {
		return nil, err
	}
	return l.judge(ctx, q.Limit, q.Explain)
}

// lookup is one search.
type lookup struct {
	store  *Store
	spaces []string
	asked  search.Query
	words  []search.Word
	vector []float32 // nil: words only

	stats      search.Stats
	keys       []string             // of the candidates, best first
	steps      map[string][]similar // by key
	background search.Background
}

// similar is a step whose vector is near.
type similar struct {
	token  string
	step   int
	cosine float64
}

// find fills keys, stats and steps.
func (l *lookup) find(ctx context.Context) error {
	terms := l.asked.Names()
	for _, w := range l.words {
		terms = append(terms, w.Term, w.TitleTerm(), w.LabelTerm())
	}
	queries := []*pb.QueryPoints{l.candidates(terms)}
	for _, w := range l.words {
		queries = append(queries, l.withTerms([]string{w.Term}, counted))
	}
	first := len(queries)
	if l.vector != nil {
		queries = append(queries, l.near(), l.sample())
	}
	found, err := l.store.query(ctx, queries)
	if err != nil {
		return err
	}
	l.take(found[0])
	l.stats.With = make([]int, len(l.words))
	for i := range l.words {
		l.stats.With[i] = l.store.estimate(len(found[1+i]), found[1+i], l.stats.Chains)
	}
	if l.vector != nil {
		l.takeVectors(found[first], found[first+1])
	}
	return l.expand(ctx)
}

// withTerms finds chains that have any of the terms; a rare one counts more.
func (l *lookup) withTerms(terms []string, limit int) *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.names().index(), Using: pb.PtrOf(vectorWords), Limit: pb.PtrOf(uint64(limit)), //nolint:gosec // a constant
		Query: pb.NewQueryNearest(pb.NewVectorInputDocument(bm25(terms))), Filter: all(in(fieldSpace, l.spaces)),
		WithPayload: pb.NewWithPayload(false),
	}
}

// candidates finds chains by terms, and by the vector if there is one: then the
// server fuses both orders by reciprocal ranks.
func (l *lookup) candidates(terms []string) *pb.QueryPoints {
	q := l.withTerms(terms, candidates)
	if l.vector != nil {
		visible := all(in(fieldSpace, l.spaces))
		q.Prefetch = []*pb.PrefetchQuery{
			{Query: q.Query, Using: q.Using, Filter: visible, Limit: pb.PtrOf(uint64(candidates))},
			{Query: pb.NewQueryDense(l.vector), Using: pb.PtrOf(vectorDense), Filter: visible, Limit: pb.PtrOf(uint64(nearest)), Params: l.store.searchParams()},
		}
		q.Query, q.Using, q.Filter = pb.NewQueryFusion(pb.Fusion_RRF), nil, nil
		q.Limit = pb.PtrOf(uint64(candidates + nearest))
	}
	q.WithPayload = pb.NewWithPayloadInclude(fieldChainKey)
	return q
}

// near finds steps whose vectors are near.
func (l *lookup) near() *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.names().index(), Using: pb.PtrOf(vectorDense), Limit: pb.PtrOf(uint64(nearest)),
		Query: pb.NewQueryDense(l.vector), Filter: all(in(fieldSpace, l.spaces)), Params: l.store.searchParams(),
		WithPayload: pb.NewWithPayloadInclude(fieldChainKey, fieldToken, "step"),
	}
}

// sample compares with steps taken at random.
func (l *lookup) sample() *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.names().index(), Using: pb.PtrOf(vectorDense), Limit: pb.PtrOf(uint64(sampled)),
		Prefetch: []*pb.PrefetchQuery{{
			Query: pb.NewQuerySample(pb.Sample_Random), Limit: pb.PtrOf(uint64(sampled)),
			Filter: all(is(fieldKind, kindStep), in(fieldSpace, l.spaces), pb.NewHasVector(vectorDense)),
		}},
		Query: pb.NewQueryDense(l.vector), WithPayload: pb.NewWithPayload(false),
	}
}

func (s *Store) searchParams() *pb.SearchParams {
	return &pb.SearchParams{Quantization: &pb.QuantizationSearchParams{Rescore: pb.PtrOf(!s.options.NoRescore), Oversampling: pb.PtrOf(2.0)}}
}

func (s *Store) query(ctx context.Context, queries []*pb.QueryPoints) ([][]*pb.ScoredPoint, error) {
	results, err := call(ctx, s, func(ctx context.Context) ([]*pb.BatchResult, error) {
		return s.client.QueryBatch(ctx, &pb.QueryBatchPoints{CollectionName: s.names().index(), QueryPoints: queries})
	})
	if err != nil {
		return nil, err
	}
	out := make([][]*pb.ScoredPoint, len(queries))
	for i, r := range results[:min(len(results), len(out))] {
		out[i] = r.GetResult()
	}
	return out, nil
}

// take adds candidates, each chain once.
func (l *lookup) take(points []*pb.ScoredPoint) {
	for _, p := range points {
		key := p.GetPayload()[fieldChainKey].GetStringValue()
		if key != "" && !slices.Contains(l.keys, key) {
			l.keys = append(l.keys, key)
		}
	}
}

func (l *lookup) takeVectors(near, sample []*pb.ScoredPoint) {
	cosines := make([]float64, len(sample))
	for i, p := range sample {
		cosines[i] = float64(p.GetScore())
	}
	l.background = search.BackgroundOf(cosines)
	l.steps = map[string][]similar{}
	for _, p := range near {
		v := p.GetPayload()
		key := v[fieldChainKey].GetStringValue()
		l.steps[key] = append(l.steps[key], similar{
			token: v[fieldToken].GetStringValue(), step: int(v["step"].GetIntegerValue()), cosine: float64(p.GetScore()),
		})
	}
}

// estimate is how many visible chains have a term: the number that was found,
// or, if there may be more, what the inverse document frequency says, which is
// the score of a chain for one term that it has.
func (s *Store) estimate(found int, points []*pb.ScoredPoint, visible int) int {
	if found < counted {
		return found
	}
	everywhere := float64(max(s.counts.everywhere(), visible))
	share := 1 / math.Exp(float64(points[0].GetScore()))
	// idf = ln(1 + (n - with + 0.5) / (with + 0.5)), so with + 0.5 = (n + 1) / e^idf.
	with := (everywhere+1)*share - 0.5
	return max(counted, min(visible, int(with*float64(visible)/everywhere)))
}

// expand looks for what words may stand for that too few chains have: the
// beginnings and other forms of words and, where that finds nothing, words
// with typing errors.
func (l *lookup) expand(ctx context.Context) error {
	var terms []string
	for i, w := range l.words {
		if l.stats.With[i] >= candidates {
			continue
		}
		more, err := l.completions(ctx, w)
		if err != nil {
			return err
		}
		found, err := l.known(ctx, i, w, more)
		if err != nil {
			return err
		}
		terms = append(terms, found...)
		if l.stats.With[i] > 0 {
			continue
		}
		if more, err = l.corrections(ctx, w); err != nil {
			return err
		}
		terms = append(terms, more...)
	}
	if len(terms) == 0 {
		return nil
	}
	for i, w := range l.words {
		if l.stats.With[i] > 0 {
			terms = append(terms, w.Term)
		}
	}
	found, err := l.store.query(ctx, []*pb.QueryPoints{l.withKeys(terms)})
	if err != nil {
		return err
	}
	l.take(found[0])
	return nil
}

func (l *lookup) withKeys(terms []string) *pb.QueryPoints {
	q := l.withTerms(terms, candidates)
	q.WithPayload = pb.NewWithPayloadInclude(fieldChainKey)
	return q
}

// known counts the chains that have a completion of a word, if none has the
// word itself, and returns the completions' terms.
func (l *lookup) known(ctx context.Context, i int, w search.Word, completions []string) ([]string, error) {
	terms := slices.DeleteFunc(slices.Clone(completions), func(term string) bool { return term == w.Term })
	if len(terms) == 0 || l.stats.With[i] > 0 {
		return terms, nil
	}
	found, err := l.store.query(ctx, []*pb.QueryPoints{l.withTerms(terms, counted)})
	if err != nil {
		return nil, err
	}
	l.stats.With[i] = len(found[0])
	return terms, nil
}

// completions are the terms of words that begin like the word of the query.
func (l *lookup) completions(ctx context.Context, w search.Word) ([]string, error) {
	if w.Root == "" {
		return nil, nil
	}
	from := titleKey(w.Root)
	to := from
	for i := len(w.Root); i < titleKeyBytes; i++ {
		to |= int64(0xff) << (8 * (titleKeyBytes - 1 - i))
	}
	f := all(is(fieldKind, kindWord), pb.NewRange(fieldWordKey, &pb.Range{Gte: pb.PtrOf(float64(from)), Lte: pb.PtrOf(float64(to))}))
	points, _, err := l.store.find(ctx, l.store.names().index(), f, titlesPage, nil, fieldWord)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, p := range points {
		if word := p.GetPayload()[fieldWord].GetStringValue(); strings.HasPrefix(word, w.Root) {
			words = append(words, word)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return terms(w, words[:min(len(words), completed)]), nil
}

func terms(w search.Word, words []string) []string {
	var out []string
	for _, word := range words {
		if t := w.Completed(word).Term; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// corrections are the terms of words that the word of the query may be a
// mistyped form of.
func (l *lookup) corrections(ctx context.Context, w search.Word) ([]string, error) {
	found, err := l.store.query(ctx, []*pb.QueryPoints{{
		CollectionName: l.store.names().index(), Using: pb.PtrOf(vectorTrigrams), Limit: pb.PtrOf(uint64(looked)),
		Query: pb.NewQueryNearest(pb.NewVectorInputDocument(bm25(search.Trigrams(w.Text)))), WithPayload: pb.NewWithPayloadInclude(fieldWord),
	}})
	if err != nil {
		return nil, err
	}
	type correction struct {
		word   string
		errors int
	}
	var fitting []correction
	for _, p := range found[0] {
		word := p.GetPayload()[fieldWord].GetStringValue()
		if n := w.Mistyped(word); n > 0 {
			fitting = append(fitting, correction{word, n})
		}
	}
	slices.SortFunc(fitting, func(a, b correction) int {
		return cmp.Or(cmp.Compare(a.errors, b.errors), strings.Compare(a.word, b.word))
	})
	var words []string
	for _, c := range fitting[:min(len(fitting), corrected)] {
		words = append(words, c.word)
	}
	return terms(w, words), nil
}

// judged is a candidate with its score.
type judged struct {
	hit      engine.Hit // without its chain
	rank     uint64     // among equals
	manifest manifest
}

// judge reads the candidates' manifests, scores them, and returns the best ones in order.
func (l *lookup) judge(ctx context.Context, limit int, explain bool) ([]engine.Hit, error) {
	s := l.store
	points, err := s.get(ctx, s.names().protocols(), l.keys, fieldKind, fieldSpace, fieldRevision, fieldToken, fieldOutline, fieldWords)
	if err != nil {
		return nil, err
	}
	found, err := l.scoreAll(points, explain)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b judged) int {
		return cmp.Or(cmp.Compare(b.hit.Score, a.hit.Score), cmp.Compare(a.rank, b.rank), cmp.Compare(a.manifest.key, b.manifest.key))
	})
	var hits []engine.Hit
	for _, j := range found[:min(len(found), limit)] {
		if j.hit.Chain, err = s.outlined(j.manifest); err != nil {
			return nil, err
		}
		hits = append(hits, j.hit)
	}
	return hits, nil
}

// scoreAll scores what the spaces hold of the candidates, on all processors:
// it is most of what a search costs here.
func (l *lookup) scoreAll(points []*pb.RetrievedPoint, explain bool) ([]judged, error) {
	scored := make([]judged, len(points))
	matches := make([]bool, len(points))
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(points); i += workers {
				m, err := l.store.manifestOf(points[i])
				if err != nil {
					return err
				}
				if !m.live() || !slices.Contains(l.spaces, m.space) {
					continue
				}
				if scored[i], matches[i], err = l.score(m, explain); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var found []judged
	for i, ok := range matches {
		if ok {
			found = append(found, scored[i])
		}
	}
	return found, nil
}

func (l *lookup) score(m manifest, explain bool) (judged, bool, error) {
	s := l.store
	b, err := base64.StdEncoding.DecodeString(m.words)
	if err != nil {
		return judged{}, false, s.damaged(m.key, err)
	}
	d, err := search.ParseDocument(b)
	if err != nil {
		// Of another analyser, until the index is made anew.
		c, err := s.chain(m, m.outline)
		if err != nil {
			return judged{}, false, err
		}
		d = search.Analyse(c)
	}
	result, byWords := l.asked.Score(d, l.stats)
	vector, step := l.vectorScore(m)
	if !byWords && vector == 0 {
		return judged{}, false, nil
	}
	hit := engine.Hit{Step: result.Step, Score: search.Fuse(result.Score, vector)}
	if vector > result.Score {
		hit.Step = step
	}
	if explain {
		hit.Why = l.why(d, byWords, vector, step)
	}
	return judged{hit, d.Rank(), m}, true, nil
}

// vectorScore is how near the best step of a chain is, by its present steps.
func (l *lookup) vectorScore(m manifest) (score float64, step int) {
	for _, near := range l.steps[m.key] {
		if near.token != m.token {
			continue
		}
		if v := l.background.Score(near.cosine); v > score {
			score, step = v, near.step
		}
	}
	return score, step
}

func (l *lookup) why(d search.Document, byWords bool, vector float64, step int) []engine.Match {
	var why []engine.Match
	if byWords {
		for _, m := range l.asked.Explain(d, l.stats) {
			why = append(why, engine.Match(m))
		}
	}
	if vector > 0 {
		why = append(why, engine.Match{Ranker: search.RankerVector, Step: step, Score: vector})
	}
	return why
}

// countCache remembers how many protocols there are, for a short time.
type countCache struct {
	mu   sync.Mutex // guards the fields below
	at   map[string]countAt
	most int
}

type countAt struct {
	n    int
	when time.Time
}

// forget makes the next search count again.
func (c *countCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = nil
}

// everywhere is the largest number of protocols that was seen together.
func (c *countCache) everywhere() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// chainsIn is how many protocols the spaces have.
func (s *Store) chainsIn(ctx context.Context, spaces []string) (int, error) {
	key := strings.Join(spaces, "\n")
	s.counts.mu.Lock()
	known, ok := s.counts.at[key]
	s.counts.mu.Unlock()
	if ok && time.Since(known.when) < countsFresh {
		return known.n, nil
	}
	n, err := s.countManifests(ctx, spaces)
	if err != nil {
		return 0, err
	}
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	if s.counts.at == nil || len(s.counts.at) > 1000 {
		s.counts.at = map[string]countAt{}
	}
	s.counts.at[key] = countAt{n, time.Now()}
	s.counts.most = max(s.counts.most, n)
	return n, nil
}
