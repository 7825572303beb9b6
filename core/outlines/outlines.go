// Package outlines keeps in memory what searches compare: the outline of every protocol.
// It is read at the first search, and every search reads what has changed since.
package outlines

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// batch is how many changes are read at once.
const batch = 256

// Store is what outlines are made from.
type Store interface {
	library.Changes
	Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error)
}

// Near is an index beside the store, of the vectors of a model.
type Near interface {
	// Near finds what is nearest to a vector in the spaces; nil: it cannot answer, or it is
	// behind the store.
	Near(ctx context.Context, spaces []string, e library.Embedding) *search.Near
}

// Many is the number of protocols from which a Near is asked: below it, comparing all vectors
// in memory is faster.
const Many = 20_000

// Outlines finds protocols. It is safe for concurrent use.
type Outlines struct {
	store Store
	table func() *meaning.Table // nil: without one only words are compared
	near  Near                  // may be nil
	many  int
	log   *slog.Logger

	turn chan struct{} // holds a token; its owner may change what follows
	now  atomic.Pointer[state]
}

// state is an index with the changes up to a number.
type state struct {
	index *search.Index
	table *meaning.Table
	model string // whose vectors the outlines have; empty: those of the table, if there is one
	last  atomic.Int64
}

// New returns the outlines of a store. It uses the store and makes the table at the first
// search, so a server that is only probed leaves no trace. A nil table: only words, and the
// vectors of an embedding model, are compared.
func New(store Store, table func() *meaning.Table, log *slog.Logger) *Outlines {
	o := &Outlines{store: store, table: table, log: log, turn: make(chan struct{}, 1)}
	o.turn <- struct{}{}
	return o
}

// Asking returns the outlines of the same store that ask near from a number of protocols on.
// It is called before the first search.
func (o *Outlines) Asking(near Near, many int) *Outlines {
	o.near, o.many = near, many
	return o
}

// Search implements library.Searcher.
func (o *Outlines) Search(ctx context.Context, q library.Query) (search.Answer, error) {
	s, err := o.current(ctx, q.Model)
	if err != nil {
		return search.Answer{}, err
	}
	if o.near != nil && s.index.Len() > o.many {
		for _, v := range q.Vectors {
			q.Near = append(q.Near, o.nearTo(ctx, q, v))
		}
	}
	return s.index.Search(q.Request), nil
}

// nearTo asks the index beside the store; nil: it cannot answer.
func (o *Outlines) nearTo(ctx context.Context, q library.Query, vector []float32) *search.Near {
	if len(vector) == 0 {
		return nil
	}
	return o.near.Near(ctx, q.Spaces, library.Embedding{Model: q.Model, Vector: vector})
}

// Named implements library.Searcher.
func (o *Outlines) Named(ctx context.Context, title string, spaces []string) ([]search.Found, error) {
	s, err := o.current(ctx, "")
	if err != nil {
		return nil, err
	}
	return s.index.Named(title, spaces), nil
}

// current returns the index with all changes that were visible when it was called. One
// caller at a time reads them; the others wait for it.
func (o *Outlines) current(ctx context.Context, model string) (*state, error) {
	last, err := o.store.LastChange(ctx)
	if err != nil {
		return nil, err
	}
	if s := o.now.Load(); s.usable(model, last) {
		return s, nil
	}
	select {
	case <-o.turn:
		defer func() { o.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Another caller may have read more in the meantime.
	if last, err = o.store.LastChange(ctx); err != nil {
		return nil, err
	}
	s := o.now.Load()
	if s == nil || model != "" && s.model != model || s.last.Load() > last || s.index.Worn() { // or the database is another one
		if s != nil && model == "" {
			model = s.model
		}
		s = o.empty(model)
		o.now.Store(s) // a caller that cannot wait any longer leaves what it has read to the next one
	}
	return s, o.read(ctx, s, last)
}

// usable reports whether the state has the changes up to a number and the vectors of the model.
func (s *state) usable(model string, last int64) bool {
	return s != nil && s.last.Load() == last && (model == "" || s.model == model)
}

func (o *Outlines) empty(model string) *state {
	s := &state{model: model}
	if o.table != nil {
		s.table = o.table()
	}
	s.index = search.New(s.table)
	return s
}

// read puts the changes after those of the state into its index, up to a number or a later one.
// The next page is read while the outlines of one are made.
func (o *Outlines) read(ctx context.Context, s *state, last int64) error {
	pages := make(chan page, 1)
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reader.Go(func() {
		defer close(pages)
		o.readPages(ctx, s.last.Load(), last, pages)
	})
	for p := range pages {
		if p.err == nil {
			p.err = o.put(ctx, s, p.changes)
		}
		if p.err != nil {
			return p.err
		}
		s.last.Store(p.last)
	}
	return ctx.Err()
}

// page has some changes, up to a number.
type page struct {
	changes []library.Changed
	last    int64
	err     error
}

func (o *Outlines) readPages(ctx context.Context, since, last int64, pages chan<- page) {
	for since < last {
		changes, err := o.store.Changed(ctx, since, batch)
		since = lastOf(changes)
		if len(changes) < batch {
			since = max(last, since) // numbers that belong to no change were given, too
		}
		select {
		case pages <- page{changes, since, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func lastOf(changes []library.Changed) int64 {
	if len(changes) == 0 {
		return 0
	}
	return changes[len(changes)-1].Number
}

// put puts changes into the index. A protocol that cannot be read is not found.
func (o *Outlines) put(ctx context.Context, s *state, changes []library.Changed) error {
	vectors, err := o.vectors(ctx, s.model, changes)
	if err != nil {
		return err
	}
	made := make([]*search.Outline, len(changes))
	workers := min(runtime.GOMAXPROCS(0), len(changes))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(changes); i += workers {
				if c := changes[i].Chain; c != nil {
					outline := search.OutlineOf(changes[i].Space, *c, s.table)
					made[i] = withVectors(&outline, *c, vectors)
				}
			}
		})
	}
	all.Wait()
	var outlines []search.Outline
	for i, c := range changes {
		switch {
		case made[i] != nil:
			outlines = append(outlines, *made[i])
			continue
		case c.Damage != nil:
			o.log.WarnContext(ctx, "a protocol cannot be read, so no search finds it", "space", c.Space, "protocol", c.ChainID, "error", c.Damage)
		}
		s.index.Delete(c.Space, c.ChainID)
	}
	s.index.Put(outlines...)
	return nil
}

// vectors returns those that the model has of the passages of the chains, by hash.
func (o *Outlines) vectors(ctx context.Context, model string, changes []library.Changed) (map[string][]float32, error) {
	if model == "" {
		return nil, nil
	}
	var hashes []string
	for _, change := range changes {
		if c := change.Chain; c != nil {
			for i := range c.Steps {
				hashes = append(hashes, protocol.PassageHash(c.Passage(i)))
			}
		}
	}
	return o.store.Known(ctx, model, hashes)
}

func withVectors(o *search.Outline, c protocol.Chain, vectors map[string][]float32) *search.Outline {
	var parts [][]float32
	for i := range c.Steps {
		if v := vectors[protocol.PassageHash(c.Passage(i))]; v != nil {
			parts = append(parts, v)
		}
	}
	if len(parts) > 0 {
		*o = o.With(len(parts[0]), parts)
	}
	return o
}
