package wordindex

import (
	"slices"
	"sync"
)

// segmentCache caches parts of segments. Its entries never become outdated: an id
// never changes its meaning, and removed segments are not read again.
type segmentCache struct {
	mu          sync.Mutex // guards the fields below
	directories map[int64][]string
	blocks      map[int64][]byte
	size        int // of the blocks, in bytes
	terms       int // in the directories
}

// The limits of the cache: some 20 MB in all.
const (
	maxCachedBytes = 12 << 20
	maxCachedTerms = 1 << 17
)

// cached returns the blocks that are in the cache, and the ids of those that are not.
func (c *segmentCache) cached(ids []int64) (blocks map[int64][]byte, missing []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	blocks = make(map[int64][]byte, len(ids))
	for _, id := range ids {
		if b, ok := c.blocks[id]; ok {
			blocks[id] = b
		} else {
			missing = append(missing, id)
		}
	}
	return blocks, missing
}

// keep adds blocks. If there are too many, arbitrary ones are evicted.
func (c *segmentCache) keep(blocks map[int64][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks == nil {
		c.blocks = map[int64][]byte{}
	}
	for id, b := range blocks {
		if _, ok := c.blocks[id]; !ok {
			c.blocks[id] = b
			c.size += len(b)
		}
	}
	for id, b := range c.blocks {
		if c.size <= maxCachedBytes {
			return
		}
		delete(c.blocks, id)
		c.size -= len(b)
	}
}

func (c *segmentCache) directory(id int64) ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.directories[id]
	return d, ok
}

func (c *segmentCache) keepDirectory(id int64, d []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directories == nil {
		c.directories = map[int64][]string{}
	}
	if _, ok := c.directories[id]; !ok {
		c.directories[id] = d
		c.terms += len(d)
	}
	for other, d := range c.directories {
		if c.terms <= maxCachedTerms {
			return
		}
		delete(c.directories, other)
		c.terms -= len(d)
	}
}

// searched is a segment that is being searched.
type searched struct {
	Stored
	directory []string
}

// document is the id of a document by its number in the segment.
func (s *searched) document(number int32) int64 {
	return documentID(s.Space, s.First+int64(number))
}

// readSegments reads the segments of the spaces.
func (l *lookup) readSegments() error {
	stored, err := l.reader.Segments(l.numbers())
	if err != nil {
		return err
	}
	var unread []int64
	for _, segment := range stored {
		s := searched{Stored: segment}
		var known bool
		if s.directory, known = l.index.segments.directory(s.ID); !known {
			unread = append(unread, s.ID)
		}
		l.segments = append(l.segments, s)
	}
	if len(unread) == 0 {
		return nil
	}
	return l.reader.Directories(unread, func(id int64, raw []byte) error {
		d, err := parseDirectory(raw)
		if err != nil {
			return err
		}
		l.index.segments.keepDirectory(id, d)
		at := slices.IndexFunc(l.segments, func(s searched) bool { return s.ID == id })
		l.segments[at].directory = d
		return nil
	})
}

// readLists returns, for each term and each segment, the documents that have it.
// The terms are sorted and distinct.
func (l *lookup) readLists(terms []string) (map[string][][]byte, error) {
	type span struct{ block, from, to int64 } // range of the terms that may be in a block
	spans := make([][]span, len(l.segments))
	var ids []int64
	for i, s := range l.segments {
		for at, term := range terms {
			b := blockOf(s.directory, term)
			if b < 0 {
				continue
			}
			id := BlockID(s.ID, b)
			if n := len(spans[i]); n > 0 && spans[i][n-1].block == id {
				spans[i][n-1].to++
				continue
			}
			spans[i] = append(spans[i], span{id, int64(at), int64(at + 1)})
			ids = append(ids, id)
		}
	}
	blocks, err := l.readBlocks(ids)
	if err != nil {
		return nil, err
	}
	found := make(map[string][][]byte, len(terms))
	for i := range l.segments {
		for _, s := range spans[i] {
			wanted := terms[s.from:s.to]
			err := find(blocks[s.block], wanted, func(at int, list []byte) {
				lists := found[wanted[at]]
				if lists == nil {
					lists = make([][]byte, len(l.segments))
					found[wanted[at]] = lists
				}
				lists[i] = list
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (l *lookup) readBlocks(ids []int64) (map[int64][]byte, error) {
	blocks, missing := l.index.segments.cached(ids)
	if len(missing) == 0 {
		return blocks, nil
	}
	read := make(map[int64][]byte, len(missing))
	err := l.reader.Blocks(missing, func(id int64, block []byte) error {
		read[id], blocks[id] = block, block
		return nil
	})
	l.index.segments.keep(read)
	return blocks, err
}
