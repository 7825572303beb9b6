package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// A score says how much of the query a chain covers. Each query word weighs as
// much as it is rare, and counts with the weight of the best field that has it:
//
//	coverage = sum(rarity * best field) / sum(rarity)
//	score    = 0.85 coverage + 0.02 coverage of the best step + 0.02 coverage * share of the title's words asked for
//
// so that a match never looks like an exact title: that is 1, and the title's
// words in another order or form 0.95.
const (
	scoreExact     = 1.0
	scoreSameWords = 0.95
	partCoverage   = 0.85
	partTogether   = 0.02
	partTitle      = 0.02

	weightPrefix = 0.8 // of a word that only begins like the query's
	weightCommon = 0.2 // of a word like "the", which says little
)

// field is what a searchable text is.
type field int

// The fields; the numbers are stored.
const (
	fieldTitle field = iota + 1
	fieldLabel
	fieldTags
	fieldText
)

var fieldWeight = map[field]float64{fieldTitle: 1, fieldLabel: 0.9, fieldTags: 0.85, fieldText: 0.75}

// indexChain adds the words of a chain to the index.
func indexChain(tx *transaction, key int64, c protocol.Chain) error {
	add := func(step int, f field, text string) error {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		var id int64
		if _, err := tx.row(`INSERT INTO search_fields (chain, step, field) VALUES (?, ?, ?) RETURNING id`,
			[]any{key, step, int(f)}, &id); err != nil {
			return err
		}
		return tx.exec(`INSERT INTO search (rowid, words) VALUES (?, ?)`, id, spaced(text))
	}
	if err := add(0, fieldTitle, c.Title); err != nil {
		return err
	}
	if err := add(0, fieldText, c.Description); err != nil {
		return err
	}
	for i, step := range c.Steps {
		if err := add(i, fieldLabel, step.Label); err != nil {
			return err
		}
		if err := add(i, fieldTags, strings.Join(step.Tags, " ")); err != nil {
			return err
		}
		if err := add(i, fieldText, step.Text); err != nil {
			return err
		}
	}
	return nil
}

// Search implements engine.Searcher.
func (s *Store) Search(ctx context.Context, spaces []string, query string, limit int) ([]engine.Hit, error) {
	words := queryWords(query)
	if len(words) == 0 || limit <= 0 || len(spaces) == 0 {
		return nil, ctx.Err()
	}
	visible := list(spaces)
	var total int
	err := s.row(ctx, `SELECT count(*) FROM chains WHERE space IN (SELECT value FROM json_each(?))`,
		[]any{visible}, []any{&total})
	if err != nil {
		return nil, err
	}
	scores := newScores(total)
	for _, w := range words {
		found, err := s.find(ctx, visible, w)
		if err != nil {
			return nil, err
		}
		scores.add(w, found)
	}
	return s.hits(ctx, scores, query, limit)
}

// place is where a word was found.
type place struct {
	chain int64
	step  int
}

// find returns the weight with which each step of each visible chain has the word.
func (s *Store) find(ctx context.Context, visible string, w word) (map[place]match, error) {
	found := map[place]match{}
	collect := func(expression string, factor float64) error {
		return s.rows(ctx, `SELECT f.chain, f.step, f.field FROM search
			JOIN search_fields f ON f.id = search.rowid JOIN chains c ON c.key = f.chain
			WHERE search MATCH ? AND c.space IN (SELECT value FROM json_each(?))`,
			[]any{expression, visible}, func(scan func(...any) error) error {
				var at place
				var f field
				if err := scan(&at.chain, &at.step, &f); err != nil {
					return err
				}
				m := found[at]
				m.weight = max(m.weight, factor*fieldWeight[f])
				m.title = m.title || f == fieldTitle && factor == 1
				found[at] = m
				return nil
			})
	}
	if err := collect(w.exact(), 1); err != nil {
		return nil, err
	}
	prefix, ok := w.prefix()
	if !ok {
		return found, nil
	}
	return found, collect(prefix, weightPrefix)
}

// match of one word in one step.
type match struct {
	weight float64
	title  bool // the whole word stands in the title
}

// scores collects the matches of all words.
type scores struct {
	total  int // visible chains
	rarity float64
	chains map[int64]*chainScore
}

type chainScore struct {
	key     int64
	covered float64
	titled  int // query words that stand in the title
	words   int // query words that stand anywhere and say something
	steps   map[int]float64
}

func newScores(total int) *scores { return &scores{total: total, chains: map[int64]*chainScore{}} }

func (s *scores) add(w word, found map[place]match) {
	best := map[int64]match{}
	for at, m := range found {
		b := best[at.chain]
		best[at.chain] = match{weight: max(b.weight, m.weight), title: b.title || m.title}
	}
	rarity := 1 + math.Log(float64(s.total+1)/float64(len(best)+1))
	if w.common {
		rarity = weightCommon
	}
	s.rarity += rarity
	for key, m := range best {
		c := s.chains[key]
		if c == nil {
			c = &chainScore{key: key, steps: map[int]float64{}}
			s.chains[key] = c
		}
		c.covered += rarity * m.weight
		if m.title {
			c.titled++
		}
		if !w.common {
			c.words++
		}
	}
	for at, m := range found {
		s.chains[at.chain].steps[at.step] += rarity * m.weight
	}
}

// bestStep returns the step that covers most, the first of equals.
func (c *chainScore) bestStep() (step int, covered float64) {
	for at, sum := range c.steps {
		if sum > covered || sum == covered && at < step {
			step, covered = at, sum
		}
	}
	return step, covered
}

// hits turns the scores into hits, best first.
func (s *Store) hits(ctx context.Context, sc *scores, query string, limit int) ([]engine.Hit, error) {
	words := queryWords(query)
	allCommon := !slices.ContainsFunc(words, func(w word) bool { return !w.common })
	var candidates []*chainScore
	for _, c := range sc.chains {
		if c.words > 0 || allCommon {
			candidates = append(candidates, c)
		}
	}
	slices.SortFunc(candidates, func(a, b *chainScore) int {
		return cmp.Or(cmp.Compare(b.titled, a.titled), cmp.Compare(b.covered, a.covered), cmp.Compare(a.key, b.key))
	})
	var hits []engine.Hit
	for _, c := range candidates {
		hit, err := s.hit(ctx, sc, c, query, len(words))
		if err != nil {
			return nil, err
		}
		hits = append(hits, hit)
	}
	slices.SortStableFunc(hits, func(a, b engine.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Chain.Title, b.Chain.Title))
	})
	return hits[:min(limit, len(hits))], nil
}

func (s *Store) hit(ctx context.Context, sc *scores, c *chainScore, query string, words int) (engine.Hit, error) {
	var outline []byte
	err := s.row(ctx, `SELECT outline FROM chains WHERE key = ?`, []any{c.key}, []any{&outline})
	if err != nil {
		return engine.Hit{}, err
	}
	var chain protocol.Chain
	if err := json.Unmarshal(outline, &chain); err != nil {
		return engine.Hit{}, s.damaged("chain", "found", err)
	}
	step, together := c.bestStep()
	title := max(1, len(queryWords(chain.Title)))
	coverage := c.covered / sc.rarity
	score := partCoverage*coverage + partTogether*together/sc.rarity +
		partTitle*coverage*min(1, float64(c.titled)/float64(title))
	switch {
	case normal(chain.Title) == normal(query):
		score = scoreExact
	case c.titled == words && words == title:
		score = scoreSameWords
	}
	return engine.Hit{Chain: chain, Step: step, Score: score}, nil
}
