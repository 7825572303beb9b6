package wordindex

import (
	"context"
	"sync"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// OutlineReader reads the outlines of chains in one snapshot of the database.
type OutlineReader interface {
	// Fingerprint of all chains; any change leads to another one.
	Fingerprint() (Fingerprint, error)
	// EachOutline reads the outlines of all chains of all spaces.
	EachOutline(each func(key int64, outline protocol.Chain) error) error
	// OutlinesByKey reads those of some chains.
	OutlinesByKey(keys []int64, each func(key int64, outline protocol.Chain) error) error
}

// Fingerprint tells apart the contents of a database: the number of chains, the highest
// key, and a sum of the times at which they were stored.
type Fingerprint [3]int64

// outlineCache keeps an index of the outlines of all chains in memory, for searches
// while the stored index is one of another version. It is made again after every
// change: to analyse the texts of the steps, too, would take five times as long.
type outlineCache struct {
	// mu guards the fields below. It is held before a snapshot is taken: searches that wait
	// for the index take no connection from other calls.
	mu   sync.Mutex
	of   Fingerprint
	made *outlineIndex // nil: not yet
}

// search returns the hits of a query among the outlines. Vectors are not compared.
func (c *outlineCache) search(ctx context.Context, s Source, asked search.Query, q library.Query) (hits []library.Hit, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.Embedding, q.Near = nil, nil
	err = s.Outlines(ctx, func(r OutlineReader) error {
		if err := c.refreshLocked(r); err != nil {
			return err
		}
		hits, err = c.made.index.search(snapshot{outlineIndex: c.made, database: r}, State{}, asked, q)
		return err
	})
	return hits, err
}

// refreshLocked makes the index again if the chains have changed.
func (c *outlineCache) refreshLocked(r OutlineReader) error {
	now, err := r.Fingerprint()
	if err != nil || c.made != nil && c.of == now {
		return err
	}
	made, err := readOutlines(r)
	if err != nil {
		return err
	}
	c.of, c.made = now, made
	return nil
}

// outlineIndex is an index in memory. It is not changed once it is made.
type outlineIndex struct {
	index     *Index // its caches
	spaces    map[string]*Space
	segments  []Stored
	parts     map[int64]Segment // by id of the segment
	documents map[int64]Document
	words     []search.Numbered
	numbers   map[string]uint32 // of the words
}

func readOutlines(r OutlineReader) (*outlineIndex, error) {
	x := &outlineIndex{index: New(), spaces: map[string]*Space{}, parts: map[int64]Segment{}, documents: map[int64]Document{}, numbers: map[string]uint32{}}
	var keys []int64
	var spaces []string
	var chains []Analysed
	flush := func() {
		for _, a := range Additions(spaces, chains) {
			x.add(a, keys)
		}
		keys, spaces, chains = keys[:0], spaces[:0], chains[:0]
	}
	err := r.EachOutline(func(key int64, outline protocol.Chain) error {
		keys, spaces, chains = append(keys, key), append(spaces, outline.Space), append(chains, Analyse(outline))
		if len(keys) == batch { // what was analysed takes more memory than the index
			flush()
		}
		return nil
	})
	flush()
	return x, err
}

// add adds a segment. keys are those of all chains of the batch.
func (x *outlineIndex) add(a *Addition, keys []int64) {
	space := x.spaces[a.space]
	if space == nil {
		space = &Space{Number: int64(len(x.spaces) + 1)}
		x.spaces[a.space] = space
	}
	for word := range a.with {
		if _, known := x.numbers[word]; !known {
			number := uint32(len(x.words) + 1) //nolint:gosec // memory holds fewer
			x.words = append(x.words, search.Numbered{Number: number, Text: word})
			x.numbers[word] = number
		}
	}
	a.numbers = x.numbers
	first, n := int64(space.Chains+1), int64(len(a.analyses))
	for i, key := range a.keysOf(keys) {
		id := documentID(space.Number, first+int64(i))
		x.documents[id] = Document{ID: id, Chain: key, Raw: a.document(i)}
	}
	segment := Stored{ID: int64(len(x.segments) + 1), Space: space.Number, First: first, Span: n, Documents: n}
	x.segments, x.parts[segment.ID] = append(x.segments, segment), a.segment
	space.Chains += int(n)
}

// snapshot is an index in memory with the database that it was made of.
type snapshot struct {
	Reader // nil: nobody asks it for vectors
	*outlineIndex
	database OutlineReader
}

// Spaces implements Reader.
func (s snapshot) Spaces(names []string) (all []Space, err error) {
	for _, name := range names {
		if space := s.spaces[name]; space != nil {
			all = append(all, *space)
		}
	}
	return all, nil
}

// Segments implements Reader.
func (s snapshot) Segments(spaces []int64) (all []Stored, err error) {
	for _, segment := range s.segments {
		for _, space := range spaces {
			if segment.Space == space {
				all = append(all, segment)
			}
		}
	}
	return all, nil
}

// Directories implements Reader.
func (s snapshot) Directories(segments []int64, each func(int64, []byte) error) error {
	for _, id := range segments {
		if err := each(id, s.parts[id].Directory); err != nil {
			return err
		}
	}
	return nil
}

// Blocks implements Reader.
func (s snapshot) Blocks(ids []int64, each func(int64, []byte) error) error {
	for _, id := range ids {
		if err := each(id, s.parts[id>>20].Blocks[id&(1<<20-1)]); err != nil {
			return err
		}
	}
	return nil
}

// Words implements Reader.
func (s snapshot) Words(after int64) ([]search.Numbered, error) { return s.words[after:], nil }

// Documents implements Reader.
func (s snapshot) Documents(ids []int64, each func(int64, []byte) error) error {
	for _, id := range ids {
		if err := each(id, s.documents[id].Raw); err != nil {
			return err
		}
	}
	return nil
}

// Outlines implements Reader.
func (s snapshot) Outlines(ids []int64) (map[int64]protocol.Chain, error) {
	documents, keys := make(map[int64]int64, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		keys[i] = s.documents[id].Chain
		documents[keys[i]] = id
	}
	chains := make(map[int64]protocol.Chain, len(ids))
	err := s.database.OutlinesByKey(keys, func(key int64, outline protocol.Chain) error {
		chains[documents[key]] = outline
		return nil
	})
	return chains, err
}
