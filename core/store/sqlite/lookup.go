package sqlite

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/search"
)

// A lookup finds the chains that are worth a look, without reading the whole
// list of a word that many chains have. Of such a word those chains are found
// that have it in the title, in a label, or together with rarer words.
type lookup struct {
	*view
	asked  search.Query
	spaces []visible
	stats  search.Stats
	wanted []wanted
	named  []int64        // chains that are asked for by name
	near   map[int64]near // by search id: chains with a step whose vector is near the query's
}

// The limits of the work of one lookup.
const (
	// maxPostings is how many chains of a word are read in a space, and so the
	// most of which the number is exact.
	maxPostings = 400
	// maxOthers is how many are read of the words that it may be completed to,
	// when there are chains that have the word itself, though few.
	maxOthers = 100
	// maxRungs is how often words are left out to find chains with the others.
	maxRungs = 3
)

// Roughly what a word counts where it was found; what is judged is decided by
// these, the score by core/search.
const (
	roughTitle = 1
	roughLabel = 0.9
	roughText  = 0.75
	roughOther = 0.6 // of a word it may be completed or corrected to
)

// wanted is one word of the query.
type wanted struct {
	word   search.Word
	others []search.Word // that it may be completed or corrected to
	chains int           // that have it, or else one of the others; estimated when truncated
	rarity float64
	// found is what was found of the word, by search id; truncated: not all of it.
	found     map[int64]float64
	truncated bool
}

// add notes where the word was found.
func (w *wanted) add(ids []int64, weight float64) {
	for _, id := range ids {
		w.found[id] = max(w.found[id], weight)
	}
}

// expression finds the word, or what it may be, in one way.
func (w *wanted) expression(term func(search.Word) string) string {
	terms := []string{quote(term(w.word))}
	for _, other := range w.others {
		terms = append(terms, quote(term(other)))
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// quote makes a term an FTS5 string, in which nothing is syntax. No term has quotes.
func quote(term string) string { return `"` + term + `"` }

func wholeTerm(w search.Word) string { return w.Term }

// look does all the lookups of a query.
func (v *view) look(asked search.Query, spaces []visible) (*lookup, error) {
	l := &lookup{view: v, asked: asked, spaces: spaces}
	for _, space := range spaces {
		l.stats.Chains += space.chains
	}
	known, err := v.store.vocabulary.refresh(v)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range asked.Names() {
		names = append(names, quote(name))
	}
	if l.named, _, err = l.postings(strings.Join(names, " OR "), maxPostings); err != nil {
		return nil, err
	}
	for i, word := range asked.Words() {
		w, err := l.want(word, known)
		if err != nil {
			return nil, err
		}
		l.stats.With = append(l.stats.With, w.chains)
		w.rarity = l.stats.Rarity(i)
		l.wanted = append(l.wanted, w)
	}
	return l, l.together()
}

// want looks for one word.
func (l *lookup) want(word search.Word, known words) (wanted, error) {
	w := wanted{word: word, found: map[int64]float64{}}
	ids, chains, err := l.postings(quote(word.Term), maxPostings)
	if err != nil {
		return w, err
	}
	w.chains, w.truncated = chains, chains > len(ids)
	w.add(ids, roughText)
	limit := maxOthers
	if chains == 0 {
		limit = maxPostings
	}
	if chains < minCandidates {
		w.others = completed(word, known.completions(word.Root))
	}
	if err := l.findOthers(&w, limit); err != nil {
		return w, err
	}
	if w.chains == 0 && len(w.found) == 0 {
		w.others = completed(word, known.corrections(word))
		if err := l.findOthers(&w, limit); err != nil {
			return w, err
		}
		w.chains = 0 // still: only then errors are forgiven
	}
	return w, l.findNamed(&w)
}

// completed are the words to look up instead, one for each term.
func completed(word search.Word, vocabulary []string) []search.Word {
	seen := map[string]bool{word.Term: true}
	var out []search.Word
	for _, known := range vocabulary {
		if c := word.Completed(known); !seen[c.Term] {
			seen[c.Term] = true
			out = append(out, c)
		}
	}
	return out
}

func (l *lookup) findOthers(w *wanted, limit int) error {
	if len(w.others) == 0 {
		return nil
	}
	terms := make([]string, len(w.others))
	for i, other := range w.others {
		terms[i] = quote(other.Term)
	}
	ids, chains, err := l.postings(strings.Join(terms, " OR "), limit)
	w.add(ids, roughOther)
	if w.chains == 0 {
		w.chains, w.truncated = chains, chains > len(ids)
	}
	return err
}

// findNamed finds titles with the word, if there is more than can be judged,
// and labels, if there is more than is read.
func (l *lookup) findNamed(w *wanted) error {
	if len(w.found) <= minCandidates && !w.truncated {
		return nil
	}
	ids, _, err := l.postings(w.expression(search.Word.TitleTerm), maxPostings)
	if err != nil {
		return err
	}
	w.add(ids, roughTitle)
	if !w.truncated {
		return nil
	}
	if ids, _, err = l.postings(w.expression(search.Word.LabelTerm), maxPostings); err != nil {
		return err
	}
	w.add(ids, roughLabel)
	return nil
}

// postings returns the search ids of the chains that an expression matches, at
// most limit in each space, and an estimate of how many there are.
func (l *lookup) postings(expression string, limit int) (ids []int64, chains int, err error) {
	for _, space := range l.spaces {
		start := len(ids)
		err := l.rows(readPostings, []any{expression, space.from, space.to, limit}, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		n := len(ids) - start
		chains += n
		if n == limit {
			chains += space.beyond(ids[len(ids)-1], n)
		}
	}
	return ids, chains, nil
}

// beyond estimates how many chains there are after the last one read: they are
// in the order in which they were stored.
func (s visible) beyond(last int64, read int) int {
	if last >= s.to {
		return 0
	}
	more := float64(read) * float64(s.to-last) / float64(max(1, last-s.from))
	return max(1, min(int(more), s.chains-read))
}

// together finds the chains that have common words with others.
func (l *lookup) together() error {
	words := l.rarestFirst()
	common := slices.IndexFunc(words, func(w *wanted) bool { return w.truncated })
	if common < 0 || len(words) < 2 {
		return nil
	}
	if common > 0 {
		if err := l.besideRare(words[:common], words[common:]); err != nil {
			return err
		}
	}
	if err := l.climb(words, search.Word.TitleTerm, roughTitle); err != nil {
		return err
	}
	return l.climb(words, wholeTerm, roughText)
}

// rarestFirst are the words that any chain has.
func (l *lookup) rarestFirst() []*wanted {
	var words []*wanted
	for i := range l.wanted {
		if len(l.wanted[i].found) > 0 {
			words = append(words, &l.wanted[i])
		}
	}
	slices.SortStableFunc(words, func(a, b *wanted) int { return cmp.Compare(b.rarity, a.rarity) })
	return words
}

// besideRare finds the common words in the chains of rare ones, of which all
// are known.
func (l *lookup) besideRare(rare, common []*wanted) error {
	n := 0
	terms := make([]string, len(rare))
	for i, w := range rare {
		n += len(w.found)
		terms[i] = w.expression(wholeTerm)
	}
	if n <= minCandidates {
		return nil // all of them will be judged
	}
	for _, w := range common {
		ids, _, err := l.postings("("+strings.Join(terms, " OR ")+") AND "+w.expression(wholeTerm), maxPostings)
		if err != nil {
			return err
		}
		w.add(ids, roughText)
	}
	return nil
}

// climb finds chains that have all the words, and leaves out the most common
// one until there are enough.
func (l *lookup) climb(words []*wanted, term func(search.Word) string, weight float64) error {
	found := 0
	for n := len(words); n > 1 && found < minCandidates && n > len(words)-maxRungs; n-- {
		terms := make([]string, n)
		for i, w := range words[:n] {
			terms[i] = w.expression(term)
		}
		ids, _, err := l.postings(strings.Join(terms, " AND "), 2*minCandidates)
		if err != nil {
			return err
		}
		for _, w := range words[:n] {
			w.add(ids, weight)
		}
		found += len(ids)
	}
	return nil
}

// best are the n chains whose words roughly match best, and half as many that
// might match better if they also had the common words of which not all chains
// are known; and all that are asked for by name or near.
func (l *lookup) best(n int) []int64 {
	known, hoped := map[int64]float64{}, map[int64]float64{}
	hope := 0.0
	for _, w := range l.wanted {
		if w.truncated {
			hope += w.rarity * roughText
		}
		for id, weight := range w.found {
			known[id] += w.rarity * weight
			hoped[id] += w.rarity * weight
			if w.truncated {
				hoped[id] -= w.rarity * roughText
			}
		}
	}
	ids := slices.Concat(l.named, slices.Collect(maps.Keys(l.near)), highest(known, n))
	if hope > 0 {
		ids = append(ids, highest(hoped, n/2)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// highest are the n keys with the highest sums.
func highest(sums map[int64]float64, n int) []int64 {
	type chain struct {
		id  int64
		sum float64
	}
	all := make([]chain, 0, len(sums))
	for id, sum := range sums {
		all = append(all, chain{id, sum})
	}
	slices.SortFunc(all, func(a, b chain) int { return cmp.Or(cmp.Compare(b.sum, a.sum), cmp.Compare(a.id, b.id)) })
	ids := make([]int64, min(n, len(all)))
	for i := range ids {
		ids[i] = all[i].id
	}
	return ids
}
