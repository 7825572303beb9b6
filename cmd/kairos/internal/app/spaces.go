package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

// spaceStore keeps the spaces that operators made. Implemented by *tables.Spaces.
type spaceStore interface {
	Made(ctx context.Context) ([]string, error)
	Make(ctx context.Context, id string, at time.Time) (bool, error)
}

// madeSpaces are the spaces that operators made, which every caller reads and writes. It is
// safe for concurrent use.
type madeSpaces struct {
	store spaceStore
	log   *slog.Logger

	mu  sync.Mutex // guards the fields below
	at  time.Time  // when they were read
	ids []string
}

// spacesFor is how long the spaces are believed: another process may make one.
const spacesFor = time.Second

// all are their ids. If they cannot be read, they are those that were read last.
func (m *madeSpaces) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) < spacesFor {
		return m.ids
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ids, err := m.store.Made(ctx)
	if err != nil {
		if !m.at.IsZero() { // whoever opens the database says why it cannot be read at all
			m.log.Warn("the spaces cannot be read", "error", err)
			m.at = time.Now() // one wait at a time: not each caller after another
		}
		return m.ids
	}
	m.ids, m.at = ids, time.Now()
	return m.ids
}

// CreateSpace implements operations.Spaces.
func (o operator) CreateSpace(ctx context.Context, c access.Caller, name string) (id string, created bool, err error) {
	if c.Principal != LocalPrincipal {
		return "", false, fault.New(fault.Forbidden, "spaces are made by the operator of the server, with `kairos spaces create`")
	}
	if id, err = library.SpaceID(name); err != nil {
		return "", false, err
	}
	m := o.app.made
	if created, err = m.store.Make(ctx, id, time.Now()); err != nil {
		return "", false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = time.Time{}
	if !slices.Contains(m.ids, id) {
		m.ids = append(slices.Clone(m.ids), id)
	}
	return id, created, nil
}
