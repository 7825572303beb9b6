// Package cache keeps the values that were used last, up to a total size in bytes. It
// does not know what the values are: the caller says how large each one is.
package cache

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// overhead is about what an entry takes besides its key and value: its places in
	// the map and in the list.
	overhead = 200
	// share is the part of the limit that one value may take: a larger one would
	// evict many others that are used more often together.
	share = 16
)

// Cache is safe for concurrent use. The values are shared by all callers, which must
// not modify them.
type Cache[K comparable, V any] struct {
	limit int // fixed at creation

	mu      sync.Mutex // guards the fields below
	entries *simplelru.LRU[K, entry[V]]
	bytes   int
}

type entry[V any] struct {
	value V
	bytes int
}

// New returns an empty cache for values of limit bytes in total.
func New[K comparable, V any](limit int) *Cache[K, V] {
	c := &Cache[K, V]{limit: limit}
	// No entry is smaller than the overhead, so that the bytes are the tighter limit.
	entries, err := simplelru.NewLRU(limit/overhead+1, func(_ K, e entry[V]) { c.bytes -= e.bytes })
	if err != nil {
		panic(err) // only for a negative limit
	}
	c.entries = entries
	return c
}

// Get returns the value of the key.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	return e.value, ok
}

// Put keeps a value, of which size is the bytes together with its key, and evicts the
// values that were not used for longest. A value that is too large is not kept.
func (c *Cache[K, V]) Put(key K, value V, size int) {
	size += overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key) // so that its bytes do not count any more
	if size > c.limit/share {
		return
	}
	c.entries.Add(key, entry[V]{value, size})
	for c.bytes += size; c.bytes > c.limit; {
		c.entries.RemoveOldest()
	}
}
