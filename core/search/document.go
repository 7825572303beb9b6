package search

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// The limits of a document. A chain that is larger is found by its first words.
const (
	maxEntries = 20_000 // distinct words
	maxPlaces  = 16     // of one word in one field
)

// field is where in a chain a word stands. The numbers are stored.
type field uint8

const (
	fieldTitle field = iota
	fieldAltTitle
	fieldSlug
	fieldLabel
	fieldTags      // of a step
	fieldChainTags // of the front matter
	fieldText
	fieldDescription
	fields
)

// name is what explanations call the field.
var fieldName = [fields]string{"title", "alt_title", "slug", "label", "tags", "tags", "text", "description"}

var fieldWeight = [fields]float64{1, 0.95, 0.95, 0.9, 0.85, 0.85, 0.75, 0.75}

// ofChain: the field belongs to every step.
func (f field) ofChain() bool {
	return f == fieldTitle || f == fieldAltTitle || f == fieldSlug || f == fieldChainTags || f == fieldDescription
}

// named are the fields a chain can be called by.
const named = 3 // fieldTitle, fieldAltTitle, fieldSlug

// Document is an analysed chain: which words stand in which fields of which
// steps. It is read-only and safe for concurrent use.
type Document struct {
	names   [named]name
	steps   int
	entries []entry // by text
}

// name is a way to call a chain.
type name struct {
	exact uint64 // hash of the text; 0: there is none
	loose uint64 // hash of its words, in any order and form
	size  int    // number of these words
}

// entry is one distinct word.
type entry struct {
	text   string
	term   string
	places []place // ascending
}

// place is a step and a field.
type place uint32

func placeOf(step int, f field) place { return place(step)<<3 | place(f) }

func (p place) step() int    { return int(p >> 3) }
func (p place) field() field { return field(p & 7) }

// Analyse returns the document of a chain.
func Analyse(c protocol.Chain) Document {
	a := analysis{at: make(map[string]int, 256), stems: stemmers.get()}
	defer stemmers.put(a.stems)
	a.doc.steps = len(c.Steps)
	for f, text := range [named]string{c.Title, c.AltTitle, c.Slug} {
		a.doc.names[f] = nameOf(text)
		a.add(0, field(f), text)
	}
	a.add(0, fieldChainTags, strings.Join(c.Tags, " "))
	// Labels before texts: if there is too much, it is text that is left out.
	for i, s := range c.Steps {
		a.add(i, fieldLabel, s.Label)
		a.add(i, fieldTags, strings.Join(s.Tags, " "))
	}
	a.add(0, fieldDescription, c.Description)
	for i, s := range c.Steps {
		a.add(i, fieldText, s.Text)
	}
	slices.SortFunc(a.doc.entries, func(x, y entry) int { return strings.Compare(x.text, y.text) })
	for _, e := range a.doc.entries {
		slices.Sort(e.places)
	}
	return a.doc
}

// analysis is a document in the making.
type analysis struct {
	doc   Document
	at    map[string]int // in doc.entries
	stems *stemmer
}

// add adds the words of a text. Common words count only where they may be all
// there is.
func (a *analysis) add(step int, f field, text string) {
	if text == "" {
		return
	}
	here := placeOf(step, f)
	for _, t := range tokens(text) {
		if f >= fieldTags && common[t.text] {
			continue
		}
		i, known := a.at[t.text]
		if !known {
			if len(a.doc.entries) == maxEntries {
				continue
			}
			i = len(a.doc.entries)
			a.at[t.text] = i
			a.doc.entries = append(a.doc.entries, entry{text: t.text, term: a.stems.term(t.text)})
		}
		e := &a.doc.entries[i]
		if n := len(e.places); n > 0 && e.places[n-1] == here || e.full(f) {
			continue
		}
		e.places = append(e.places, here)
	}
}

// full: the word stands in enough places of the field.
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
	plain := plain(text)
	if plain == "" {
		return name{}
	}
	words := looseWords(strings.Fields(plain))
	return name{exact: hash(plain), loose: hash(strings.Join(words, " ")), size: len(words)}
}

// looseWords are the distinct words in one form and order, without the common
// ones if there are others.
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

// Rank orders chains of the same score: the shorter title first, and then by
// the titles, as good as at random but everywhere the same.
func (d Document) Rank() uint64 {
	title := d.names[fieldTitle]
	return uint64(min(title.size, 255))<<56 | title.exact>>8
}

// The first characters of terms that are not words of any field. No word has an underscore.
const (
	inTitle = "t_" // words of the title, the alternative title and the slug
	inLabel = "l_" // words of labels
	isExact = "x_" // one of these texts as a whole
	isLoose = "y_" // its words in any order and form
)

// Terms are what a backend indexes to find the chain: distinct, sorted, of
// lower-case letters, digits, marks and underscores, so that blanks may stand
// between them. Query.Words and Query.Names say what to look for.
func (d Document) Terms() []string { return d.terms(func(place) bool { return true }) }

// StepTerms are the terms of one step; those of the chain (title, description)
// belong to every step.
func (d Document) StepTerms(step int) []string {
	return d.terms(func(p place) bool { return p.field().ofChain() || p.step() == step })
}

func (d Document) terms(of func(place) bool) []string {
	found := make([]string, 0, len(d.entries)+32)
	for _, e := range d.entries {
		var text, title, label bool
		for _, p := range e.places {
			if !of(p) {
				continue
			}
			text = true
			title = title || p.field() < named
			label = label || p.field() == fieldLabel
		}
		if text {
			found = append(found, e.term)
		}
		if title {
			found = append(found, inTitle+e.term)
		}
		if label {
			found = append(found, inLabel+e.term)
		}
	}
	for _, n := range d.names {
		found = append(found, n.terms()...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (n name) terms() []string {
	if n.exact == 0 {
		return nil
	}
	return []string{isExact + strconv.FormatUint(n.exact, 36), isLoose + strconv.FormatUint(n.loose, 36)}
}

// Vocabulary are the distinct words of the chain as they are written, folded,
// sorted; what a word that is mistyped or not typed to its end can be
// completed to. Words that nobody types are not among them.
func (d Document) Vocabulary() []string {
	var out []string
	for _, e := range d.entries {
		if n := utf8.RuneCountInString(e.text); n >= 3 && n <= 30 && hasLetter(e.text) {
			out = append(out, e.text)
		}
	}
	return out
}

func hasLetter(word string) bool {
	return strings.ContainsFunc(word, func(r rune) bool { return r > '9' })
}

// Trigrams are those of the words of title, alternative title, slug, tags and
// labels: distinct and sorted, for backends that find mistyped words by them.
func (d Document) Trigrams() []string {
	found := map[string]bool{}
	for _, e := range d.entries {
		if !slices.ContainsFunc(e.places, func(p place) bool { return p.field() < fieldText }) || common[e.text] {
			continue
		}
		for _, t := range Trigrams(e.text) {
			found[t] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// AppendBinary appends the compact form that ParseDocument reads. The error is always nil.
func (d Document) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, Version)
	b = binary.AppendUvarint(b, uint64(d.steps))
	for _, n := range d.names {
		b = binary.LittleEndian.AppendUint64(b, n.exact)
		b = binary.LittleEndian.AppendUint64(b, n.loose)
		b = binary.AppendUvarint(b, uint64(n.size))
	}
	b = binary.AppendUvarint(b, uint64(len(d.entries)))
	last := ""
	for _, e := range d.entries {
		b = appendDifference(b, last, e.text)
		b = appendDifference(b, e.text, e.term)
		b = binary.AppendUvarint(b, uint64(len(e.places)))
		at := place(0)
		for _, p := range e.places {
			b = binary.AppendUvarint(b, uint64(p-at))
			at = p
		}
		last = e.text
	}
	return b, nil
}

// appendDifference appends how much s shares with the base, and its rest.
func appendDifference(b []byte, base, s string) []byte {
	n := 0
	for n < len(base) && n < len(s) && base[n] == s[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(s)-n))
	return append(b, s[n:]...)
}

// errDocument says that a document's binary form is not one.
var errDocument = errors.New("not the binary form of a document")

// ParseDocument reads what AppendBinary wrote, and fails on anything else.
func ParseDocument(b []byte) (Document, error) {
	if len(b) == 0 {
		return Document{}, errDocument
	}
	if b[0] != Version {
		return Document{}, fmt.Errorf("document of analyser version %d, want %d: %w", b[0], Version, errDocument)
	}
	r := reader{rest: b[1:]}
	var d Document
	d.steps = r.number(1 << 28)
	for i := range d.names {
		d.names[i] = name{exact: r.word(), loose: r.word(), size: r.number(1 << 20)}
	}
	n := r.number(maxEntries)
	if r.failed || n > len(r.rest) {
		return Document{}, errDocument
	}
	d.entries = make([]entry, n)
	r.places = make([]place, 0, 2*n)
	// All words are made of one string, which costs one allocation.
	r.letters = make([]byte, 0, 10*n)
	ends := make([]int, 2*n)
	last := span{}
	for i := range d.entries {
		text := r.difference(last)
		ends[2*i] = len(r.letters)
		r.difference(text)
		ends[2*i+1] = len(r.letters)
		d.entries[i].places = r.placesOf(d.steps)
		if r.failed || i > 0 && string(r.letters[text.from:text.to]) <= string(r.letters[last.from:last.to]) {
			return Document{}, errDocument
		}
		last = text
	}
	letters, from := string(r.letters), 0
	for i := range d.entries {
		d.entries[i].text = letters[from:ends[2*i]]
		d.entries[i].term = letters[ends[2*i]:ends[2*i+1]]
		from = ends[2*i+1]
	}
	if len(r.rest) > 0 {
		return Document{}, errDocument
	}
	return d, nil
}

// reader reads a binary form. After a failure it returns zeros.
type reader struct {
	rest    []byte
	failed  bool
	places  []place // the memory of all places
	letters []byte  // and of all words
}

// span is a word in the letters.
type span struct{ from, to int }

func (r *reader) number(limit int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(limit) {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *reader) word() uint64 {
	if len(r.rest) < 8 {
		r.failed = true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// difference appends what shares a beginning with the base to the letters.
func (r *reader) difference(base span) span {
	shared, more := r.number(base.to-base.from), r.number(len(r.rest))
	if r.failed || more > len(r.rest) || shared+more > 2*maxWord {
		r.failed = true
		return span{}
	}
	word := span{from: len(r.letters)}
	r.letters = append(r.letters, r.letters[base.from:base.from+shared]...)
	r.letters = append(r.letters, r.rest[:more]...)
	r.rest = r.rest[more:]
	word.to = len(r.letters)
	return word
}

func (r *reader) placesOf(steps int) []place {
	n := r.number(int(fields) * maxPlaces)
	if r.failed || n == 0 {
		r.failed = true
		return nil
	}
	start := len(r.places)
	at := place(0)
	for i := range n {
		delta := place(r.number(1 << 31))
		at += delta
		if r.failed || i > 0 && delta == 0 || at.step() >= max(1, steps) {
			r.failed = true
			return nil
		}
		r.places = append(r.places, at)
	}
	return r.places[start:len(r.places):len(r.places)]
}
