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
	// candidates is how many chains each ranking returns, judgedMost how many of
	// them are read in total. Up to candidates the chains with a word are counted;
	// larger numbers are estimated from the inverse document frequency.
	candidates, judgedMost = 60, 90
	// nearest is how many steps are compared by vector, sampled how many random ones
	// determine the background.
	nearest, sampled = 200, 64
	// countsFresh is how long the number of protocols is cached.
	countsFresh = 5 * time.Second
	// oftenKept bounds the cache of common words.
	oftenKept = 20_000
)

// Search implements library.Searcher. The server finds candidates by terms and
// vectors; core/search scores them, and their manifests confirm them, so that
// uncommitted and replaced chains are never visible.
func (s *Store) Search(ctx context.Context, q library.Query) ([]library.Hit, error) {
	query := search.Ask(q.Text)
	if query.Blank() && q.Embedding == nil || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	if err := s.schema.prepare(ctx); err != nil {
		return nil, err
	}
	total, err := s.chainsIn(ctx, q.Spaces)
	if err != nil || total == 0 {
		return nil, err
	}
	l := &lookup{store: s, spaces: q.Spaces, query: query, words: query.Words(), known: map[string]bool{}, stats: search.Stats{Chains: total}}
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
	query  search.Query
	words  []search.Word
	vector []float32 // nil: words only

	vocabulary search.Vocabulary
	stats      search.Stats
	found      []candidate // best first
	known      map[string]bool
	steps      map[string][]similar // by candidate's id
	background search.Background
}

// candidate is a chain in the index, written by some save.
type candidate struct {
	id         string // of the point with its words
	key, token string
	document   string // base64; empty: not read yet
}

// similar is a step with a similar vector.
type similar struct {
	step   int
	cosine float64
}

// alternatives are terms for a word of the query.
type alternatives struct {
	own         bool     // some chain of some space has or had the word itself
	completions []string // terms of completions and other forms
	corrections []string // terms of corrections
}

// find fills found, stats and steps. Usually that takes one request: the
// vocabulary of this process has the alternatives to the words of the query.
func (l *lookup) find(ctx context.Context) error {
	var err error
	if l.vocabulary, err = l.store.index.vocabulary(ctx); err != nil {
		return err
	}
	stand := make([]alternatives, len(l.words))
	for i, w := range l.words {
		stand[i] = l.alternatives(w)
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

// alternatives returns the alternatives to a word before its chains are counted:
// only a word that no chain has can be a typing error.
func (l *lookup) alternatives(w search.Word) alternatives {
	var s alternatives
	s.completions = slices.DeleteFunc(l.vocabulary.Completions(w), func(term string) bool {
		s.own = s.own || term == w.Term
		return term == w.Term
	})
	if s.own = s.own || len(l.vocabulary.Missing([]string{w.Text})) == 0; !s.own && len(s.completions) == 0 {
		s.corrections = l.vocabulary.Corrections(w)
	}
	return s
}

// findAgain looks up alternatives to words that exist only in spaces that the
// caller does not see.
func (l *lookup) findAgain(ctx context.Context, stand []alternatives) error {
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

// take adds candidates, each chain once: a step represents its chain.
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
