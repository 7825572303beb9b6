package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
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
	fieldTrigger // the place is the number of the trigger instead of a step
	fieldLabel
	fieldTags      // of a step
	fieldChainTags // of the front matter
	fieldText
	fieldDescription
	fields
)

// name is what explanations call the field.
var fieldName = [fields]string{"title", "alt_title", "slug", "triggers", "label", "tags", "tags", "text", "description"}

var fieldWeight = [fields]float64{1, 0.95, 0.95, 0.95, 0.9, 0.85, 0.85, 0.75, 0.75}

// names reports that chains can be called by what the field says.
func (f field) names() bool { return f <= fieldTrigger }

// ofChain: the field belongs to every step.
func (f field) ofChain() bool { return f.names() || f == fieldChainTags || f == fieldDescription }

// Document is an analysed chain: which words stand in which fields of which
// steps. It is read-only and safe for concurrent use.
type Document struct {
	names   []name // the title, the alternative title, the slug, and the triggers
	steps   int
	words   int    // distinct
	entries []byte // of the words, in their order; see AppendBinary and walk
}

// name is a way to call a chain.
type name struct {
	exact uint64 // hash of the text; 0: there is none
	loose uint64 // hash of its words, in any order and form
	size  int    // number of these words
}

// entry is one distinct word of a document in the making.
type entry struct {
	text   string
	term   string
	places []place // ascending
}

// place is a step and a field.
type place uint32

func placeOf(step int, f field) place { return place(step)<<4 | place(f) }

// step is the step of a place in a step; 0 for one that belongs to all.
func (p place) step() int {
	if p.field() == fieldTrigger {
		return 0
	}
	return p.number()
}

func (p place) number() int  { return int(p >> 4) }
func (p place) field() field { return field(p & 15) }

// name is the number of the name that the place is in, which must be one.
func (p place) name() int { return int(p.field()) + p.number() }

// Analyse returns the document of a chain.
func Analyse(c protocol.Chain) Document {
	a := analysis{at: make(map[string]int, 256), stems: stemmers.get()}
	defer stemmers.put(a.stems)
	a.split.found = a.found
	d := Document{steps: len(c.Steps)}
	for f, text := range []string{c.Title, c.AltTitle, c.Slug} {
		d.names = append(d.names, nameOf(text))
		a.add(0, field(f), text)
	}
	for i, text := range c.Triggers[:min(len(c.Triggers), protocol.MaxTriggers)] {
		d.names = append(d.names, nameOf(text))
		a.add(i, fieldTrigger, text)
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
	slices.SortFunc(a.entries, func(x, y entry) int { return strings.Compare(x.text, y.text) })
	d.words, d.entries = len(a.entries), make([]byte, 0, 14*len(a.entries))
	for _, e := range a.entries {
		slices.Sort(e.places)
		d.entries = e.append(d.entries)
	}
	return d
}

// analysis is a document in the making.
type analysis struct {
	entries []entry
	at      map[string]int // in entries
	stems   *stemmer
	split   splitter
	places  []place // memory for the first places of entries
	here    place
}

// add adds the words of a text.
func (a *analysis) add(step int, f field, text string) {
	if text != "" {
		a.here = placeOf(step, f)
		a.split.read(text)
	}
}

// found adds a word. Common ones count only where they may be all there is.
func (a *analysis) found(word []byte, _ bool) {
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

// roomForPlaces spares most words an allocation.
func (a *analysis) roomForPlaces() []place {
	const usual = 4
	if len(a.places) < usual {
		a.places = make([]place, 128*usual)
	}
	room := a.places[:0:usual]
	a.places = a.places[usual:]
	return room
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
	inTitle = "t_" // words of names
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
	found := make([]string, 0, d.words+32)
	for w := d.walk(); w.next(); {
		var text, title, label bool
		for p := range w.each() {
			if !of(p) {
				continue
			}
			text = true
			title = title || p.field().names()
			label = label || p.field() == fieldLabel
		}
		if !text {
			continue
		}
		term := w.term()
		found = append(found, term)
		if title {
			found = append(found, inTitle+term)
		}
		if label {
			found = append(found, inLabel+term)
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
	for w := d.walk(); w.next(); {
		if n := utf8.RuneCount(w.text); n >= 3 && n <= 30 && hasLetter(w.text) {
			out = append(out, string(w.text))
		}
	}
	return out
}

func hasLetter(word []byte) bool {
	return bytes.ContainsFunc(word, func(r rune) bool { return r > '9' })
}

// Trigrams are those of the words of title, alternative title, slug, tags and
// labels: distinct and sorted, for backends that find mistyped words by them.
func (d Document) Trigrams() []string {
	found := map[string]bool{}
	for w := d.walk(); w.next(); {
		if w.best() < InTags || common[string(w.text)] {
			continue
		}
		for _, t := range Trigrams(string(w.text)) {
			found[t] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// AppendBinary appends the compact form that ParseDocument reads. The error is always nil.
func (d Document) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, Version)
	b = binary.AppendUvarint(b, uint64(d.steps))
	b = binary.AppendUvarint(b, uint64(len(d.names)))
	for _, n := range d.names {
		b = binary.LittleEndian.AppendUint64(b, n.exact)
		b = binary.LittleEndian.AppendUint64(b, n.loose)
		b = binary.AppendUvarint(b, uint64(n.size))
	}
	b = binary.AppendUvarint(b, uint64(d.words))
	return append(b, d.entries...), nil
}

// append appends the binary form: the word, its term as what it shares with the
// word and the rest, and the places as differences. Lengths stand in front, so
// that a word that is not asked for is skipped.
func (e *entry) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.text)))
	b = append(b, e.text...)
	shared := 0
	for shared < len(e.text) && shared < len(e.term) && e.text[shared] == e.term[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.term)-shared))
	b = append(b, e.term[shared:]...)
	var buffer [64]byte
	places, at := buffer[:0], place(0)
	for _, p := range e.places {
		places = binary.AppendUvarint(places, uint64(p-at))
		at = p
	}
	b = binary.AppendUvarint(b, uint64(len(places)))
	return append(b, places...)
}

// errDocument says that a document's binary form is not one.
var errDocument = errors.New("not the binary form of a document")

// ParseDocument reads what AppendBinary wrote, and fails on anything else. The
// document keeps b, which must not change.
func ParseDocument(b []byte) (Document, error) {
	d, err := OpenDocument(b)
	if err == nil && !d.whole() {
		err = errDocument
	}
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// OpenDocument is ParseDocument for what comes from where nobody else writes:
// only the head is looked at, and what is damaged further on ends the words.
func OpenDocument(b []byte) (Document, error) {
	if len(b) == 0 {
		return Document{}, errDocument
	}
	if b[0] != Version {
		return Document{}, fmt.Errorf("document of analyser version %d, want %d: %w", b[0], Version, errDocument)
	}
	r := reader{rest: b[1:]}
	var d Document
	d.steps = r.number(1 << 28)
	d.names = make([]name, r.number(int(fieldTrigger)+protocol.MaxTriggers))
	for i := range d.names {
		d.names[i] = name{exact: r.word(), loose: r.word(), size: r.number(1 << 20)}
	}
	d.words = r.number(maxEntries)
	d.entries = r.rest
	if r.failed || len(d.names) < int(fieldTrigger) {
		return Document{}, errDocument
	}
	return d, nil
}

// whole: the entries are as AppendBinary writes them.
func (d Document) whole() bool {
	w := d.walk()
	var last []byte
	for w.next() {
		if len(last) > 0 && bytes.Compare(last, w.text) >= 0 || len(w.places) == 0 {
			return false
		}
		last = w.text
		at := place(0)
		for rest := w.places; len(rest) > 0; {
			v, n := uvarint(rest)
			if n <= 0 || v > 1<<31 || v == 0 && len(rest) < len(w.places) {
				return false
			}
			rest = rest[n:]
			if at += place(v); !d.has(at) {
				return false
			}
		}
	}
	return !w.failed && len(w.rest) == 0
}

// has reports that a word can be at the place.
func (d Document) has(at place) bool {
	switch f := at.field(); {
	case f == fieldTrigger:
		return at.name() < len(d.names)
	case f.ofChain():
		return at.number() == 0
	default:
		return f < fields && at.number() < max(1, d.steps)
	}
}

// walk goes through the words of a document in their order.
type walk struct {
	rest   []byte
	left   int // words
	failed bool

	text   []byte
	shared int    // how much of it the term begins with
	more   []byte // how the term goes on
	places []byte // binary
}

func (d Document) walk() walk { return walk{rest: d.entries, left: d.words} }

// next goes to the next word, or ends.
func (w *walk) next() bool {
	if w.left == 0 || w.failed {
		return false
	}
	w.left--
	if w.nextSmall() {
		return true
	}
	w.text = w.take()
	shared, n := uvarint(w.rest)
	if w.failed || n <= 0 || shared > uint64(len(w.text)) {
		w.failed = true
		return false
	}
	w.rest = w.rest[n:]
	w.shared = int(shared) //nolint:gosec // at most a length
	w.more = w.take()
	w.places = w.take()
	return !w.failed
}

// nextSmall is next where all numbers take one byte, as nearly all do.
func (w *walk) nextSmall() bool {
	b := w.rest
	if len(b) < 4 || b[0] >= 0x80 {
		return false
	}
	more := int(b[0]) + 3
	if more > len(b) || b[more-2] > b[0] || b[more-1] >= 0x80 {
		return false
	}
	places := more + int(b[more-1]) + 1
	if places > len(b) || b[places-1] >= 0x80 {
		return false
	}
	end := places + int(b[places-1])
	if end > len(b) {
		return false
	}
	w.text, w.shared, w.more = b[1:more-2], int(b[more-2]), b[more:places-1]
	w.places, w.rest = b[places:end], b[end:]
	return true
}

// take takes bytes with their number in front.
func (w *walk) take() []byte {
	v, n := uvarint(w.rest)
	if n <= 0 || v > uint64(len(w.rest)-n) {
		w.failed = true
		return nil
	}
	end := n + int(v) //nolint:gosec // at most a length
	taken := w.rest[n:end]
	w.rest = w.rest[end:]
	return taken
}

// term is the term of the word.
func (w *walk) term() string { return string(w.text[:w.shared]) + string(w.more) }

// hasTerm says whether that is the word's term.
func (w *walk) hasTerm(term string) bool {
	return len(term) == w.shared+len(w.more) && term[:w.shared] == string(w.text[:w.shared]) && term[w.shared:] == string(w.more)
}

// each are the places of the word.
func (w *walk) each() iter.Seq[place] {
	return func(yield func(place) bool) {
		at := place(0)
		for rest := w.places; len(rest) > 0; {
			v, n := uvarint(rest)
			if n <= 0 {
				return
			}
			rest = rest[n:]
			if at += place(v); !yield(at) {
				return
			}
		}
	}
}

// best is the best standing of the word.
func (w *walk) best() Standing {
	best := InText
	for p := range w.each() {
		best = max(best, standingOf[p.field()])
	}
	return best
}

// uvarint is binary.Uvarint, for numbers that are mostly small.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// reader reads the numbers at the head of a binary form. After a failure it
// returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

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
