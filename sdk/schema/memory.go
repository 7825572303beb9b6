package schema

import "sync"

// The schemas of a step come with every call about it, and compiling one takes
// longer than the rest of the call. What was worked out is kept: it depends on
// the text alone. Bounded by the size of the texts, because strangers write them.
const (
	maxRemembered = 256 << 10
	maxText       = 32 << 10
)

var (
	compiledOf memory[*Schema]
	strictOf   memory[string]
)

// memory keeps what was worked out from a text. The zero value is ready.
type memory[T any] struct {
	mu    sync.Mutex // guards the fields below
	known map[string]T
	bytes int // of the texts
}

// of returns what is known of the text, or works it out. Failures are not kept.
func (m *memory[T]) of(text string, workOut func() (T, error)) (T, error) {
	m.mu.Lock()
	v, ok := m.known[text]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := workOut()
	if err == nil && len(text) <= maxText {
		m.keep(text, v)
	}
	return v, err
}

// keep forgets everything when there is no room: what is in use comes back with
// the next call.
func (m *memory[T]) keep(text string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.bytes+len(text) > maxRemembered {
		m.known, m.bytes = map[string]T{}, 0
	}
	if _, again := m.known[text]; !again {
		m.bytes += len(text)
	}
	m.known[text] = v
}
