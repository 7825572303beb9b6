package app

import "sync"

// changes are the spaces whose protocols changed since somebody took them. Writers
// never wait for the clients that are notified.
type changes struct {
	some chan struct{} // has an element while there are any

	mu     sync.Mutex // guards the field below
	spaces map[string]bool
}

func newChanges() *changes {
	return &changes{some: make(chan struct{}, 1), spaces: map[string]bool{}}
}

func (c *changes) add(space string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spaces[space] = true
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *changes) take() (spaces []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for space := range c.spaces {
		spaces = append(spaces, space)
	}
	clear(c.spaces)
	return spaces
}
