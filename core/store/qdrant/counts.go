package qdrant

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/search"
)

// estimate estimates how many visible chains have a term: the number that was
// found or, if there may be more, an estimate from the inverse document frequency,
// which is the score of a chain for a single term.
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

// countCache caches numbers of protocols for a short time.
type countCache struct {
	mu   sync.Mutex // guards the fields below
	at   map[string]countAt
	most int
	// often holds common words of the spaces.
	often map[string]bool
}

// common reports whether so many chains of the spaces have the term that
// alternatives are unnecessary.
func (c *countCache) common(spaces []string, term string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.often[strings.Join(spaces, "\n")+"\n"+term]
}

// remember records which of the words are common.
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

// forget invalidates the cached numbers.
func (c *countCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = nil
}

// everywhere is the largest number of protocols that was counted so far.
func (c *countCache) everywhere() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// chainsIn returns the number of protocols in the spaces.
func (s *Store) chainsIn(ctx context.Context, spaces []string) (int, error) {
	key := strings.Join(spaces, "\n")
	s.counts.mu.Lock()
	known, ok := s.counts.at[key]
	s.counts.mu.Unlock()
	if ok && time.Since(known.when) < countsFresh {
		return known.n, nil
	}
	n, err := s.chains.count(ctx, spaces)
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
