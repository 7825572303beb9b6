package search

import (
	"maps"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/meaning"
)

// Index finds protocols. It is in memory and safe for concurrent use.
type Index struct {
	table *meaning.Table // nil: only words are compared

	mu         sync.RWMutex // guards the fields below
	shelves    map[string]*shelf
	vocabulary Vocabulary
	numbers    map[string]uint32 // of the words of the vocabulary
	known      []knownWord       // by number
	texts      []string          // by number
	used       []int32           // by number: how many protocols have the word
	unused     int               // words that none has any more
}

// shelf has the protocols of a space.
type shelf struct {
	docs []doc
	at   map[string]int // in docs, by ChainID
}

// doc is an outline whose words are numbers of the vocabulary.
type doc struct {
	space   string
	chainID string
	head    Head
	names   []name
	words   []posted
	said    []saidIn // sorted by word
	vectors []int8
	width   int
}

// posted is the number of a word, and in the lower 8 bits its weight and whether the
// title or another name has it.
type posted uint32

const (
	inName posted = 1 << 6
	inHead posted = 1 << 7
)

func (p posted) number() uint32 { return uint32(p >> 8) }

// weight is 0..1.
func (p posted) weight() float64 { return float64(p&maxWeight) / maxWeight }

// saidIn is a word of a name.
type saidIn struct {
	word uint32
	name uint8
}

// knownWord is what the table knows of a word.
type knownWord struct {
	row   int32 // or one of the values below
	norm  float32
	signs uint64
}

// The rows of words that have none.
const (
	unknown = -1 // the table does not have the word
	unasked = -2 // the word tells too little of a protocol: only steps have it
)

// New returns an empty index. Without a table only words are compared.
func New(table *meaning.Table) *Index {
	return &Index{table: table, shelves: map[string]*shelf{}, numbers: map[string]uint32{}}
}

// Put adds protocols, or replaces those with the same space and ChainID.
func (x *Index) Put(outlines ...Outline) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var fresh []Numbered
	for _, o := range outlines {
		d := doc{space: o.Space, chainID: o.ChainID, head: o.Head, names: o.names, vectors: o.vectors, width: o.width}
		d.words = make([]posted, len(o.words))
		for i, w := range o.words {
			number, known := x.numbers[w.text]
			if !known {
				number = uint32(len(x.numbers)) //nolint:gosec // memory ends before
				x.numbers[w.text] = number
				x.known, x.texts, x.used = append(x.known, knownWord{row: unasked}), append(x.texts, w.text), append(x.used, 0)
				x.unused++
				fresh = append(fresh, Numbered{number, w.text})
			}
			if w.told && x.known[number].row == unasked {
				x.known[number] = x.knownRow(w.row)
			}
			d.words[i] = posted(number)<<8 | posted(w.weight)
		}
		d.say(o.said)
		slices.SortFunc(d.said, func(a, b saidIn) int { return int(a.word) - int(b.word) })
		x.put(o.Space, d)
	}
	if len(fresh) > 0 {
		x.vocabulary = x.vocabulary.With(fresh)
	}
}

// say records the words of names.
func (d *doc) say(said []namedBy) {
	d.said = make([]saidIn, len(said))
	for i, s := range said {
		p := &d.words[s.word]
		d.said[i] = saidIn{p.number(), s.name}
		*p |= inName
		if s.name == uint8(fieldTitle) {
			*p |= inHead
		}
	}
}

func (x *Index) knownWord(text string) knownWord {
	if x.table == nil || common[text] {
		return knownWord{row: unknown}
	}
	row, ok := x.table.Row(text)
	if !ok {
		return knownWord{row: unknown}
	}
	return x.knownRow(int32(row)) //nolint:gosec // a table has fewer rows
}

func (x *Index) knownRow(row int32) knownWord {
	if x.table == nil || row < 0 {
		return knownWord{row: unknown}
	}
	v := x.table.Row8(int(row))
	return knownWord{row, normOf(v), signsOf(v)}
}

func (x *Index) put(space string, d doc) {
	s := x.shelves[space]
	if s == nil {
		s = &shelf{at: map[string]int{}}
		x.shelves[space] = s
	}
	x.use(d, 1)
	if at, known := s.at[d.chainID]; known {
		x.use(s.docs[at], -1)
		s.docs[at] = d
		return
	}
	s.at[d.chainID] = len(s.docs)
	s.docs = append(s.docs, d)
}

// Delete removes a protocol.
func (x *Index) Delete(space, chainID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.shelves[space]
	if s == nil {
		return
	}
	at, known := s.at[chainID]
	if !known {
		return
	}
	x.use(s.docs[at], -1)
	last := len(s.docs) - 1
	s.docs[at] = s.docs[last]
	s.at[s.docs[at].chainID] = at
	s.docs[last] = doc{}
	s.docs = s.docs[:last]
	delete(s.at, chainID)
	if last == 0 {
		delete(x.shelves, space)
	}
}

// use counts a protocol that has come, or with -1 gone, at its words.
func (x *Index) use(d doc, n int32) {
	for _, p := range d.words {
		used := &x.used[p.number()]
		if *used == 0 {
			x.unused--
		}
		if *used += n; *used == 0 {
			x.unused++
		}
	}
}

// mostUnused is how many words that no protocol has any more are kept in any case.
const mostUnused = 100_000

// Worn reports whether most words are those of protocols that were there once: an index
// keeps all words, so it has to be made again now and then.
func (x *Index) Worn() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.unused > max(mostUnused, len(x.numbers)/2)
}

// Len is the number of protocols.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 0
	for s := range maps.Values(x.shelves) {
		n += len(s.docs)
	}
	return n
}
