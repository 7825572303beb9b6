package search

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The limits of an analysis. A larger chain is found by its first words.
const (
	maxEntries = 20_000 // distinct words
	maxPlaces  = 16     // of one word in one field
)

// field is the part of a chain that has a word. The numbers are stored.
type field uint8

const (
	fieldTitle field = iota
	fieldAltTitle
	fieldSlug
	fieldTrigger // the place is the number of the trigger instead of a step
	fieldLabel
	fieldTags      // of a step
	fieldChainTags // of the front matter
	fieldText
	fieldDescription
	fields
)

// fieldName has the names that explanations use.
var fieldName = [fields]string{"title", "alt_title", "slug", "triggers", "label", "tags", "tags", "text", "description"}

var fieldWeight = [fields]float64{1, 0.95, 0.95, 0.95, 0.9, 0.85, 0.85, 0.75, 0.75}

// names reports whether the field is a name of the chain.
func (f field) names() bool { return f <= fieldTrigger }

// ofChain reports whether the field belongs to every step.
func (f field) ofChain() bool { return f.names() || f == fieldChainTags || f == fieldDescription }

// Analysis is what a chain says: the words of the fields of its steps.
type Analysis struct {
	names   []name // the title, the alternative title, the slug, and the triggers
	steps   int
	entries []entry // sorted by text
}

// Document is the compact form of an Analysis: its words are numbers of a
// Vocabulary. It is read-only and safe for concurrent use.
type Document struct {
	names []name
	steps int
	lists []byte // see AppendBinary
}

// name is the title of a chain or an alternative to it.
type name struct {
	exact uint64 // hash of the text; 0: no name
	alike uint64 // hash that texts have in common which look alike; mostly that of the text
	loose uint64 // hash of its words, in any order and form
	size  int    // number of these words
}

// entry is one distinct word of an analysis.
type entry struct {
	text   string
	term   string
	places []place // ascending
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

// Analyse analyses a chain.
func Analyse(c protocol.Chain) Analysis {
	a := analyser{at: make(map[string]int, 256), stems: stemmers.get()}
	defer stemmers.put(a.stems)
	a.split.found = a.found
	d := Analysis{steps: len(c.Steps)}
	for f, text := range []string{c.Title, c.AltTitle, c.Slug} {
		d.names = append(d.names, nameOf(text))
		a.add(0, field(f), text)
	}
	for i, text := range c.Triggers[:min(len(c.Triggers), protocol.MaxTriggers)] {
		d.names = append(d.names, nameOf(text))
		a.add(i, fieldTrigger, text)
	}
	a.add(0, fieldChainTags, strings.Join(c.Tags, " "))
	// Labels before texts: beyond the limit it is text that is left out.
	for i, s := range c.Steps {
		a.add(i, fieldLabel, s.Label)
		a.add(i, fieldTags, strings.Join(s.Tags, " "))
	}
	a.add(0, fieldDescription, c.Description)
	for i, s := range c.Steps {
		a.add(i, fieldText, s.Text)
	}
	slices.SortFunc(a.entries, func(x, y entry) int { return strings.Compare(x.text, y.text) })
	for _, e := range a.entries {
		slices.Sort(e.places)
	}
	d.entries = a.entries
	return d
}

// analyser builds an Analysis.
type analyser struct {
	entries []entry
	at      map[string]int // in entries
	stems   *stemmer
	split   splitter
	places  []place // preallocated for the first places of entries
	here    place
}

// add adds the words of a text.
func (a *analyser) add(step int, f field, text string) {
	if text != "" {
		a.here = placeOf(step, f)
		a.split.read(text)
	}
}

// found adds a word. Stop words count only in names and labels, where they may be
// all there is.
func (a *analyser) found(word []byte, _ bool) {
	f := a.here.field()
	if f >= fieldTags && common[string(word)] {
		return
	}
	i, known := a.at[string(word)]
	if !known {
		if len(a.entries) == maxEntries {
			return
		}
		i = len(a.entries)
		e := entry{places: a.roomForPlaces()}
		e.text, e.term = a.stems.word(word)
		a.at[e.text] = i
		a.entries = append(a.entries, e)
	}
	e := &a.entries[i]
	if n := len(e.places); n > 0 && e.places[n-1] == a.here || e.full(f) {
		return
	}
	e.places = append(e.places, a.here)
}

// roomForPlaces saves an allocation for most words.
func (a *analyser) roomForPlaces() []place {
	const usual = 4
	if len(a.places) < usual {
		a.places = make([]place, 128*usual)
	}
	room := a.places[:0:usual]
	a.places = a.places[usual:]
	return room
}

// full reports whether the word has enough places in the field.
func (e *entry) full(f field) bool {
	if len(e.places) < maxPlaces {
		return false
	}
	n := 0
	for _, p := range e.places {
		if p.field() == f {
			n++
		}
	}
	return n >= maxPlaces
}

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

// Steps is the number of steps of the chain.
func (d Document) Steps() int { return d.steps }

// Rank orders chains with equal scores: shorter titles first, then in an arbitrary
// order of the titles that is the same in every store.
func (d Document) Rank() uint64 {
	title := d.names[fieldTitle]
	return uint64(min(title.size, 255))<<56 | title.exact>>8
}
