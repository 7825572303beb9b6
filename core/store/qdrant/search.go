package qdrant

import (
	"context"
	"slices"
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
	if err := s.schema.prepare(ctx); err != nil {
		return nil, err
	}
	total, err := s.chainsIn(ctx, q.Spaces)
	if err != nil || total == 0 {
		return nil, err
	}
	l := &lookup{store: s, spaces: q.Spaces, asked: asked, words: asked.Words(), known: map[string]bool{}, stats: search.Stats{Chains: total}}
	if x := s.index.state.Load(); q.Embedding != nil && q.Embedding.Model == x.model && len(q.Embedding.Vector) == x.dimension {
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
	if l.vocabulary, err = l.store.index.vocabulary(ctx); err != nil {
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
	found, err := l.store.index.query(ctx, queries)
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
		found, err := l.store.index.query(ctx, counts)
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
	found, err := l.store.index.query(ctx, []*pb.QueryPoints{q})
	if err != nil {
		return err
	}
	l.take(found[0])
	return nil
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
