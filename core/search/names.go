package search

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxEntries is how many distinct words of a chain count: the first ones.
const maxEntries = 20_000

// field is the part of a chain that has a word.
type field uint8

const (
	fieldTitle field = iota
	fieldAltTitle
	fieldSlug
	fieldTrigger // the place has the number of the trigger instead of a step
	fieldLabel
	fieldTags      // of a step
	fieldChainTags // of the front matter
	fieldText
	fieldDescription
	fields
)

// names reports whether the field is a name of the chain.
func (f field) names() bool { return f <= fieldTrigger }

// name is the title of a chain or an alternative to it.
type name struct {
	exact uint64 // hash of the text; 0: no name
	alike uint64 // hash that texts have in common which look alike; mostly that of the text
	loose uint64 // hash of its words, in any order and form
	size  int    // number of these words
}

// place is a step and a field.
type place uint32

func placeOf(step int, f field) place { return place(step)<<4 | place(f) }

// step is the step of a place; 0 if it belongs to the whole chain.
func (p place) step() int {
	if p.field() == fieldTrigger {
		return 0
	}
	return p.number()
}

func (p place) number() int  { return int(p >> 4) }
func (p place) field() field { return field(p & 15) }

// name is the number of the name at the place, which must be in a name.
func (p place) name() int { return int(p.field()) + p.number() }

func nameOf(text string) name {
	said := compared(text)
	if said == "" {
		return name{}
	}
	words := looseWords(strings.Fields(said))
	n := name{exact: hash(said), loose: hash(strings.Join(words, " ")), size: len(words)}
	n.alike = n.exact
	if looks := compared(plain.Skeleton(text)); looks != said {
		n.alike = hash(looks)
	}
	return n
}

// looseWords returns the distinct words, normalised and sorted, without stop words
// if there are others.
func looseWords(words []string) []string {
	words = telling(words)
	s := stemmers.get()
	defer stemmers.put(s)
	loose := make([]string, len(words))
	for i, w := range words {
		loose[i] = root(s.term(w))
	}
	slices.Sort(loose)
	return slices.Compact(loose)
}

func telling(words []string) []string {
	var out []string
	for _, w := range words {
		if !common[w] {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return words
	}
	return out
}

// hash is never 0.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return max(1, h.Sum64())
}
