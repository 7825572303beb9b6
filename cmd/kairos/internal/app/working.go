package app

import (
	"slices"
	"strings"
	"sync"
)

// working names what a server is doing, so that one that does not stop in time can say
// what it waits for. The zero value does nothing; it is safe for concurrent use.
type working struct {
	mu    sync.Mutex // guards names
	names []string   // of what has begun and not ended, in that order
}

// during runs do under a name.
func (w *working) during(name string, do func() error) error {
	w.mu.Lock()
	w.names = append(w.names, name)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.names, name)
		w.names = slices.Delete(w.names, i, i+1)
	}()
	return do()
}

// String lists the names, each once.
func (w *working) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, name := range w.names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
