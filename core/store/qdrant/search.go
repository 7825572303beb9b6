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

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

const (
	// candidates is how many chains each ranking gives, judgedMost how many of
	// them all are read. Up to candidates the chains with a word are counted;
	// more are estimated from how much the server says the word tells.
	candidates, judgedMost = 60, 90
	// nearest is how many steps are compared by their vectors, sampled how many
	// tell what similarity means nothing.
	nearest, sampled = 200, 64
	// countsFresh is how long the number of protocols is believed.
	countsFresh = 5 * time.Second
	// oftenKept bounds how many words are remembered to be common.
	oftenKept = 20_000
)

// Search implements library.Searcher. The server finds candidates by their
// terms and vectors; what they are worth is core/search's to say, by the
// manifests, so that what is not committed or was replaced is never seen.
func (s *Store) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
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
	l := &lookup{store: s, spaces: q.Spaces, asked: asked, words: asked.Words(), known: map[string]bool{}, stats: search.Stats{Chains: total}}
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

	vocabulary search.Vocabulary
	stats      search.Stats
	found      []candidate // best first
	known      map[string]bool
	steps      map[string][]similar // by candidate's id
	background search.Background
}

// candidate is a chain as some save has put it into the index.
type candidate struct {
	id         string // of the point with its words
	key, token string
	document   string // base64; empty: not read yet
}

// similar is a step whose vector is near.
type similar struct {
	step   int
	cosine float64
}

// standIn is what may stand for a word of the query.
type standIn struct {
	own         bool     // some chain of some space has the word itself, or had it
	completions []string // terms of words that go on after it, or are other forms
	corrections []string // terms of words it may be a mistyped form of
}

// find fills found, stats and steps. Usually that is one request: the words
// that may stand for those of the query are known here.
func (l *lookup) find(ctx context.Context) error {
	var err error
	if l.vocabulary, err = l.store.vocabulary(ctx); err != nil {
		return err
	}
	stand := make([]standIn, len(l.words))
	for i, w := range l.words {
		stand[i] = l.standIn(w)
	}
	queries := []*pb.QueryPoints{l.candidates(stand)}
	for i, w := range l.words {
		terms := []string{w.Term}
		if !stand[i].own && len(stand[i].completions) > 0 {
			terms = stand[i].completions
		}
		queries = append(queries, l.withTerms(terms))
	}
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
		if l.stats.With[i] = len(found[1+i]); stand[i].own {
			l.stats.With[i] = l.store.estimate(found[1+i], l.stats.Chains)
		}
	}
	l.store.counts.remember(l.spaces, l.words, l.stats.With)
	if l.vector != nil {
		l.takeVectors(found[len(found)-2], found[len(found)-1])
	}
	return l.findAgain(ctx, stand)
}

// standIn says what may stand for a word before it is known who has it: only
// what no chain has can be a typing error.
func (l *lookup) standIn(w search.Word) standIn {
	var s standIn
	s.completions = slices.DeleteFunc(l.vocabulary.Completions(w), func(term string) bool {
		s.own = s.own || term == w.Term
		return term == w.Term
	})
	if s.own = s.own || len(l.vocabulary.Missing([]string{w.Text})) == 0; !s.own && len(s.completions) == 0 {
		s.corrections = l.vocabulary.Corrections(w)
	}
	return s
}

// findAgain looks for what may stand for words that are only in spaces the
// caller does not see.
func (l *lookup) findAgain(ctx context.Context, stand []standIn) error {
	var counts []*pb.QueryPoints
	var of []int
	for i := range l.words {
		if l.stats.With[i] == 0 && stand[i].own && len(stand[i].completions) > 0 {
			counts, of = append(counts, l.withTerms(stand[i].completions)), append(of, i)
		}
	}
	if len(counts) > 0 {
		found, err := l.store.query(ctx, counts)
		if err != nil {
			return err
		}
		for n, i := range of {
			l.stats.With[i] = len(found[n])
		}
	}
	var terms []string
	for i, w := range l.words {
		if l.stats.With[i] == 0 && (stand[i].own || len(stand[i].completions) > 0) {
			terms = append(terms, l.vocabulary.Corrections(w)...)
		}
	}
	if len(terms) == 0 {
		return nil
	}
	for i, w := range l.words {
		if l.stats.With[i] > 0 {
			terms = append(terms, w.Term)
		}
	}
	q := l.withTerms(terms)
	q.WithPayload = candidatePayload
	found, err := l.store.query(ctx, []*pb.QueryPoints{q})
	if err != nil {
		return err
	}
	l.take(found[0])
	return nil
}

// withTerms finds chains that have any of the terms; a rare one counts more.
func (l *lookup) withTerms(terms []string) *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.names().index(), Using: pb.PtrOf(vectorWords), Limit: pb.PtrOf(uint64(candidates)),
		Query: pb.NewQueryNearest(pb.NewVectorInputDocument(bm25(terms))), Filter: all(in(fieldSpace, l.spaces)),
		WithPayload: pb.NewWithPayload(false),
	}
}

var candidatePayload = pb.NewWithPayloadInclude(fieldChainKey, fieldToken, fieldWords)

// candidates finds chains by the words of the query, by what may stand for
// these, and by the vector if there is one. The server fuses the rankings by
// reciprocal ranks.
func (l *lookup) candidates(stand []standIn) *pb.QueryPoints {
	exact := l.asked.Names()
	var wider, words []string
	for i, w := range l.words {
		exact = append(exact, w.Term, w.TitleTerm(), w.LabelTerm())
		words = append(words, w.Term)
		if !l.store.counts.common(l.spaces, w.Term) {
			wider = append(append(wider, stand[i].completions...), stand[i].corrections...)
		}
	}
	rankings := []*pb.PrefetchQuery{prefetch(l.withTerms(exact))}
	if len(wider) > 0 {
		rankings = append(rankings, prefetch(l.withTerms(append(wider, words...))))
	}
	if l.vector != nil {
		rankings = append(rankings, prefetch(l.near()))
	}
	q := l.withTerms(exact)
	if len(rankings) > 1 {
		q.Query, q.Using, q.Filter, q.Prefetch = pb.NewQueryFusion(pb.Fusion_RRF), nil, nil, rankings
		q.Limit = pb.PtrOf(uint64(judgedMost))
	}
	q.WithPayload = candidatePayload
	return q
}

func prefetch(q *pb.QueryPoints) *pb.PrefetchQuery {
	return &pb.PrefetchQuery{Query: q.GetQuery(), Using: q.Using, Filter: q.GetFilter(), Limit: q.Limit, Params: q.GetParams()}
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

// take adds candidates, each chain once: a step stands for its chain.
func (l *lookup) take(points []*pb.ScoredPoint) {
	for _, p := range points {
		v := p.GetPayload()
		c := candidate{key: v[fieldChainKey].GetStringValue(), token: v[fieldToken].GetStringValue(), document: v[fieldWords].GetStringValue()}
		if c.id = p.GetId().GetUuid(); c.document == "" {
			c.id = chainPointID(c.token, c.key)
		}
		if c.key == "" {
			continue
		}
		if !l.known[c.id] {
			l.known[c.id] = true
			l.found = append(l.found, c)
			continue
		}
		if i := slices.IndexFunc(l.found, func(have candidate) bool { return have.id == c.id }); c.document != "" {
			l.found[i].document = c.document
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
		id := chainPointID(v[fieldToken].GetStringValue(), v[fieldChainKey].GetStringValue())
		l.steps[id] = append(l.steps[id], similar{step: int(v["step"].GetIntegerValue()), cosine: float64(p.GetScore())})
	}
}

// estimate is how many visible chains have a term: the number that was found,
// or, if there may be more, what the inverse document frequency says, which is
// the score of a chain for one term that it has.
func (s *Store) estimate(points []*pb.ScoredPoint, visible int) int {
	if len(points) < candidates {
		return len(points)
	}
	everywhere := float64(max(s.counts.everywhere(), visible))
	share := 1 / math.Exp(float64(points[0].GetScore()))
	// idf = ln(1 + (n - with + 0.5) / (with + 0.5)), so with + 0.5 = (n + 1) / e^idf.
	with := (everywhere+1)*share - 0.5
	return max(candidates, min(visible, int(with*float64(visible)/everywhere)))
}

// judged is a candidate with its score.
type judged struct {
	hit  library.Hit // without its chain
	rank uint64      // among equals
	candidate
}

// judge scores the candidates, and returns the best ones in order with what
// their manifests say.
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

// confirm appends those of the candidates that their manifests know: not what
// is not committed yet or was replaced.
func (l *lookup) confirm(ctx context.Context, hits []library.Hit, found []judged) ([]library.Hit, error) {
	s := l.store
	keys := make([]string, len(found))
	for i, j := range found {
		keys[i] = j.key
	}
	points, err := s.get(ctx, s.names().protocols(), keys, fieldKind, fieldSpace, fieldRevision, fieldToken, fieldOutline)
	if err != nil {
		return nil, err
	}
	manifests := make(map[string]manifest, len(points))
	for _, p := range points {
		m, err := s.manifestOf(p)
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
		if j.hit.Chain, err = s.outlined(m); err != nil {
			return nil, err
		}
		hits = append(hits, j.hit)
	}
	return hits, nil
}

// readDocuments reads the words of the chains that were found by a step.
func (l *lookup) readDocuments(ctx context.Context) error {
	at := map[string]int{}
	var missing []string
	for i, c := range l.found {
		if c.document == "" {
			at[c.id] = i
			missing = append(missing, c.id)
		}
	}
	points, err := l.store.get(ctx, l.store.names().index(), missing, fieldWords)
	for _, p := range points {
		l.found[at[p.GetId().GetUuid()]].document = p.GetPayload()[fieldWords].GetStringValue()
	}
	if err != nil {
		return err
	}
	return l.analyseForeign(ctx)
}

// analyseForeign analyses the chains that a program with another analyser has
// stored, without their texts, until the index is made anew.
func (l *lookup) analyseForeign(ctx context.Context) error {
	at := map[string]int{}
	var keys []string
	for i, c := range l.found {
		if b, err := base64.StdEncoding.DecodeString(c.document[:min(len(c.document), 4)]); err == nil && len(b) > 0 && b[0] != search.Version {
			at[c.key] = i
			keys = append(keys, c.key)
		}
	}
	points, err := l.store.get(ctx, l.store.names().protocols(), keys, fieldKind, fieldOutline)
	if err != nil {
		return err
	}
	for _, p := range points {
		m, err := l.store.manifestOf(p)
		if err != nil {
			return err
		}
		c, err := l.store.outlined(m)
		if err != nil {
			return err
		}
		l.found[at[m.key]].document = analyse(c).document
	}
	return nil
}

// scoreAll scores the candidates, on all processors.
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

// opened is the document of a candidate, if there is one.
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
		return judged{}, false // found by a step, and gone meanwhile
	}
	result, byWords := l.asked.Score(d, l.stats)
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

// vectorScore is how near the best step of a chain is.
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
		for _, m := range l.asked.Explain(d, l.stats) {
			why = append(why, library.Match(m))
		}
	}
	if vector > 0 {
		why = append(why, library.Match{Ranker: search.RankerVector, Step: step, Score: vector})
	}
	return why
}

// countCache remembers how many protocols there are, for a short time.
type countCache struct {
	mu   sync.Mutex // guards the fields below
	at   map[string]countAt
	most int
	// often holds words that many chains of the spaces have.
	often map[string]bool
}

// common reports whether so many chains of the spaces have the term that
// nothing need stand for it.
func (c *countCache) common(spaces []string, term string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.often[strings.Join(spaces, "\n")+"\n"+term]
}

// remember keeps which of the words are common.
func (c *countCache) remember(spaces []string, words []search.Word, with []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.often) > oftenKept {
		c.often = nil
	}
	for i, w := range words {
		if with[i] >= candidates {
			if c.often == nil {
				c.often = map[string]bool{}
			}
			c.often[strings.Join(spaces, "\n")+"\n"+w.Term] = true
		}
	}
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
