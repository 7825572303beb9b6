package sessions

import (
	"context"
	"sync"
	"time"
)

// Store keeps which sessions were ended before their ids expire. Every method may block,
// honours its context, and is called concurrently, also by several processes.
type Store interface {
	// EndSession records that the session with the key has ended, until its id expires, and
	// forgets those whose ids had expired at the moment now. Ending it again has no effect.
	EndSession(ctx context.Context, key string, now, expires time.Time) error
	// SessionEnded reports whether the session with the key was ended.
	SessionEnded(ctx context.Context, key string) (bool, error)
}

// Memory is a Store of one process. The zero value is ready.
type Memory struct {
	mu    sync.Mutex // guards ended
	ended map[string]time.Time
}

// EndSession implements Store.
func (m *Memory) EndSession(_ context.Context, key string, now, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, until := range m.ended {
		if until.Before(now) {
			delete(m.ended, other)
		}
	}
	if m.ended == nil {
		m.ended = map[string]time.Time{}
	}
	m.ended[key] = expires
	return nil
}

// SessionEnded implements Store.
func (m *Memory) SessionEnded(_ context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ended := m.ended[key]
	return ended, nil
}
