package record

import (
	"sync"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// pinsKept bounds the cache: rarely are more protocols run at once.
const pinsKept = 64

// Pins caches pinned chains, which never change. It copies chains in and out,
// because callers may change their slices.
type Pins struct {
	mu     sync.Mutex // guards the fields below
	chains map[string]protocol.Chain
}

// Chain returns a cached chain.
func (c *Pins) Chain(digest string) (protocol.Chain, bool) {
	c.mu.Lock()
	chain, ok := c.chains[digest]
	c.mu.Unlock()
	return chain.Clone(), ok // cached chains are never modified
}

// Keep adds a chain.
func (c *Pins) Keep(digest string, chain protocol.Chain) {
	chain = chain.Clone()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chains == nil || len(c.chains) >= pinsKept {
		// Clearing the cache is as good as any eviction order here.
		c.chains = map[string]protocol.Chain{}
	}
	c.chains[digest] = chain
}
