package schema

import "sync"

// The schemas of a step come with every call about it, and compiling one takes
// longer than the rest of the call. What was worked out is kept: it depends on
// the text alone. Bounded by the memory it takes, because strangers write them: a
// short pattern can be a long program.
const (
	maxRemembered = 16 << 20 // bytes
	maxOne        = 4 << 20  // bytes
)

var (
	compiledOf memory[*Schema]
	strictOf   memory[string]
)

// memory keeps what was worked out from a text. The zero value is ready.
type memory[T any] struct {
	mu    sync.Mutex // guards the fields below
	known map[string]T
	bytes int // of what is known, about
}

// of returns what is known of the text, or works it out, with about how many bytes
// it takes. Failures are not kept.
func (m *memory[T]) of(text string, workOut func() (v T, bytes int, err error)) (T, error) {
	m.mu.Lock()
	v, ok := m.known[text]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, bytes, err := workOut()
	if err == nil && len(text)+bytes <= maxOne {
		m.keep(text, v, len(text)+bytes)
	}
	return v, err
}

// keep forgets everything when there is no room: what is in use comes back with
// the next call.
func (m *memory[T]) keep(text string, v T, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.bytes+bytes > maxRemembered {
		m.known, m.bytes = map[string]T{}, 0
	}
	if _, again := m.known[text]; !again {
		m.bytes += bytes
	}
	m.known[text] = v
}
