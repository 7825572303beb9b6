package main

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// shownFor is for how long a snapshot is shown again.
const shownFor = 10 * time.Second

// shown keeps the snapshot of the latest preview: when a run begins, each of its steps
// is previewed. It is forgotten when a command runs, which takes one of its own.
type shown struct {
	mu       sync.Mutex // guards the fields below
	at       time.Time
	config   config
	snapshot workspace.Snapshot
	commands int // that were run meanwhile
}

func (s *shown) take(ctx context.Context, c config) (workspace.Snapshot, error) {
	s.mu.Lock()
	at, config, snapshot, commands := s.at, s.config, s.snapshot, s.commands
	s.mu.Unlock()
	if time.Since(at) < shownFor && reflect.DeepEqual(config, c) && snapshot.Fresh() {
		return snapshot, nil
	}
	taken, err := c.take(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && commands == s.commands {
		s.at, s.config, s.snapshot = time.Now(), c, taken
	}
	return taken, err
}

func (s *shown) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	s.commands++
}
