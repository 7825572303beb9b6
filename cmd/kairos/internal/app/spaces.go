package app

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
)

// spaceStore keeps the spaces that operators made. Implemented by *tables.Spaces.
type spaceStore interface {
	Made(ctx context.Context) ([]string, error)
	Make(ctx context.Context, id string, at time.Time) (bool, error)
}

// madeSpaces are the spaces that operators made, by command or in the configuration. It is
// safe for concurrent use.
type madeSpaces struct {
	store      spaceStore
	configured []access.Members // of the configuration
	log        *slog.Logger

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
	m.ids, m.at = m.with(ids), time.Now()
	return m.ids
}

// named is the id of the space that was made under the name. One that was not has the code
// fault.SpaceNotFound.
func (m *madeSpaces) named(name string) (string, error) {
	id, err := access.SpaceID(name)
	if err == nil && !slices.Contains(m.all(), id) {
		err = fault.New(fault.SpaceNotFound, "there is no space %s", id).
			WithHint("make it with `kairos spaces create %s`, or name one that `kairos spaces list` lists", name)
	}
	return id, err
}

// with adds the configured spaces.
func (m *madeSpaces) with(ids []string) []string {
	ids = slices.Clone(ids)
	for _, in := range m.configured {
		ids = append(ids, in.Space)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// CreateSpace implements operations.Spaces.
func (o operator) CreateSpace(ctx context.Context, c access.Caller, name string) (id string, created bool, err error) {
	if id, err = access.SpaceID(name); err != nil {
		return "", false, err
	}
	doing, err := o.app.Audit.Begin(ctx, c, audit.Act{Action: audit.SpaceCreate, Object: id})
	if err != nil {
		return "", false, err
	}
	defer doing.End(&err)
	m := o.app.made
	if created, err = m.store.Make(ctx, id, time.Now()); err != nil {
		return "", false, err
	}
	doing.Note("created", strconv.FormatBool(created))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = time.Time{}
	if !slices.Contains(m.ids, id) {
		m.ids = append(slices.Clone(m.ids), id)
	}
	return id, created, nil
}
