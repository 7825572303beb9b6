package sqlite

import (
	"cmp"
	"context"
	"maps"
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

// The queries of a search.
const (
	countVisible = `SELECT count(*) FROM chains WHERE space IN (SELECT value FROM json_each(?))`
	findWord     = `SELECT f.chain, f.step, f.field FROM search
		JOIN search_fields f ON f.id = search.rowid JOIN chains c ON c.key = f.chain
		WHERE search MATCH ? AND c.space IN (SELECT value FROM json_each(?))`
	readTitles  = `SELECT key, title FROM chains WHERE key IN (SELECT value FROM json_each(?))`
	readOutline = `SELECT revision, outline FROM chains WHERE key = ?`
)

// Search implements engine.Searcher.
func (s *Store) Search(ctx context.Context, q engine.Query) ([]engine.Hit, error) {
	words := queryWords(q.Text)
	if len(words) == 0 || q.Limit <= 0 || len(q.Spaces) == 0 {
		return nil, ctx.Err()
	}
	var hits []engine.Hit
	// One view, so that a chain replaced meanwhile is found as it was or as it is.
	queries := []string{countVisible, findWord, readTitles, readOutline}
	err := s.view(ctx, queries, func(v *view) error {
		scores, err := v.score(list(q.Spaces), words)
		if err != nil {
			return err
		}
		ranked, err := v.rank(scores, q.Text, words)
		if err != nil {
			return err
		}
		hits, err = v.hits(ranked[:min(q.Limit, len(ranked))])
		return err
	})
	return hits, err
}

// scores collects the matches of all words.
type scores struct {
	total  int     // visible chains
	rarity float64 // of all words together
	chains map[int64]*chainScore
}

// chainScore is how well one chain matches.
type chainScore struct {
	covered  float64
	titled   int             // size of the query words that stand in the title
	steps    map[int]float64 // what each step covers
	title    string
	score    float64
	chainKey int64
}

// place is where a word was found, match how well.
type place struct {
	chain int64
	step  int
}

type match struct {
	weight float64
	title  bool // the whole word stands in the title
}

// score looks every word up in the chains of the visible spaces.
func (v *view) score(visible string, words []word) (*scores, error) {
	s := &scores{chains: map[int64]*chainScore{}}
	if err := v.row(countVisible, []any{visible}, &s.total); err != nil {
		return nil, err
	}
	for _, w := range words {
		found := map[place]match{}
		if err := v.find(visible, w.exact(), 1, found); err != nil {
			return nil, err
		}
		if prefix, ok := w.prefix(); ok {
			if err := v.find(visible, prefix, weightPrefix, found); err != nil {
				return nil, err
			}
		}
		s.add(w, found)
	}
	return s, nil
}

// find adds to found where an FTS5 expression matches.
func (v *view) find(visible, expression string, factor float64, found map[place]match) error {
	return v.rows(findWord, []any{expression, visible}, func(scan func(...any) error) error {
		var at place
		var f field
		if err := scan(&at.chain, &at.step, &f); err != nil {
			return err
		}
		m := found[at]
		found[at] = match{
			weight: max(m.weight, factor*fieldWeight[f]),
			title:  m.title || f == fieldTitle && factor == 1,
		}
		return nil
	})
}

func (s *scores) add(w word, found map[place]match) {
	best := map[int64]match{}
	for at, m := range found {
		b := best[at.chain]
		best[at.chain] = match{weight: max(b.weight, m.weight), title: b.title || m.title}
	}
	rarity := 1 + math.Log(float64(s.total+1)/float64(len(best)+1))
	s.rarity += rarity
	for key, m := range best {
		c := s.chains[key]
		if c == nil {
			c = &chainScore{chainKey: key, steps: map[int]float64{}}
			s.chains[key] = c
		}
		c.covered += rarity * m.weight
		if m.title {
			c.titled += w.size
		}
	}
	for at, m := range found {
		s.chains[at.chain].steps[at.step] += rarity * m.weight
	}
}

// rank computes the scores, best first.
func (v *view) rank(s *scores, query string, words []word) ([]*chainScore, error) {
	keys := slices.Collect(maps.Keys(s.chains))
	var ranked []*chainScore
	err := v.rows(readTitles, []any{list(keys)}, func(scan func(...any) error) error {
		var key int64
		var title string
		if err := scan(&key, &title); err != nil {
			return err
		}
		c := s.chains[key]
		c.title, c.score = title, s.of(c, title, query, sizeOf(words))
		ranked = append(ranked, c)
		return nil
	})
	slices.SortFunc(ranked, func(a, b *chainScore) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.title, b.title), cmp.Compare(a.chainKey, b.chainKey))
	})
	return ranked, err
}

// of is the score of a chain for a query of a size.
func (s *scores) of(c *chainScore, title, query string, size int) float64 {
	titleSize := sizeOf(queryWords(title))
	switch {
	case normal(title) == normal(query):
		return scoreExact
	case c.titled == size && size == titleSize:
		return scoreSameWords
	}
	_, together := c.bestStep()
	coverage := c.covered / s.rarity
	asked := min(1, float64(c.titled)/float64(max(1, titleSize)))
	return partCoverage*coverage + partTogether*together/s.rarity + partTitle*coverage*asked
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

// hits reads the chains that were found.
func (v *view) hits(ranked []*chainScore) ([]engine.Hit, error) {
	var hits []engine.Hit
	for _, found := range ranked {
		var row storedChain
		if err := v.row(readOutline, []any{found.chainKey}, &row.revision, &row.document); err != nil {
			return nil, err
		}
		c, err := v.store.chain(found.title, row)
		if err != nil {
			return nil, err
		}
		step, _ := found.bestStep()
		hits = append(hits, engine.Hit{Chain: c, Step: step, Score: found.score})
	}
	return hits, nil
}
