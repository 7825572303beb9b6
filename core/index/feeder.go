package index

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

const (
	// batch is how many protocols are delivered at once.
	batch = 64
	// patience is how long a search waits for an index that is a little behind.
	patience = 200 * time.Millisecond
	// pollEvery is how often the outbox is read, because other processes write to it.
	pollEvery = time.Second
	// reopenEvery is how often the feeder checks that the index is still the one that
	// it fills.
	reopenEvery = 10 * time.Second
	// The first and the longest pause after a failure.
	pauseFirst, pauseMost = 100 * time.Millisecond, 10 * time.Second
)

// Feeder delivers what changed in a store to an index. Its methods may be called
// concurrently, and several processes may feed one index.
type Feeder struct {
	store Store
	index Index
	log   *slog.Logger
	wake  chan struct{} // ends the rest of Run
	turn  chan struct{} // holds a token; its owner may deliver

	mu     sync.Mutex // guards the fields below
	model  Model      // that the index was opened for
	opened time.Time  // when it was last opened; zero: it has to be
	failed error      // of the last delivery
	aside  time.Time  // until when searches do without the index
}

// New returns a feeder. It does not use store and index before the first call. A
// nil log discards all messages.
func New(store Store, index Index, log *slog.Logger) *Feeder {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Feeder{store: store, index: index, log: log, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f
}

// Location says where the index is, for people.
func (f *Feeder) Location() string { return f.index.Location() }

// Wake makes Run deliver at once.
func (f *Feeder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Run delivers until the context ends. While the index does not answer, it tries
// again and again. A long-running process calls it once.
func (f *Feeder) Run(ctx context.Context) {
	for pause := pauseFirst; ctx.Err() == nil; {
		if f.Deliver(ctx) == nil {
			pause = pauseFirst
			rest(ctx, pollEvery, f.wake)
			continue
		}
		// Jitter, because servers of one database all wait for the same index.
		rest(ctx, pause/2+rand.N(pause), nil)
		pause = min(2*pause, pauseMost)
	}
}

func rest(ctx context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-until:
	}
}

// Deliver brings the index up to date.
func (f *Feeder) Deliver(ctx context.Context) error { return f.deliver(ctx, func(int) {}) }

// deliver calls did after each batch with the number of protocols in it.
func (f *Feeder) deliver(ctx context.Context, did func(int)) error {
	select {
	case <-f.turn:
		defer func() { f.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		n, err := f.deliverBatch(ctx)
		f.note(ctx, err)
		if err != nil || n == 0 {
			return err
		}
		did(n)
	}
}

// note records the outcome of a delivery.
func (f *Feeder) note(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.failed
	switch {
	case err == nil:
		f.failed, f.aside = nil, time.Time{}
		if before != nil {
			f.log.InfoContext(ctx, "the index is up to date again", "index", f.index.Location())
		}
	case ctx.Err() != nil: // the caller could not wait any longer
		f.opened = time.Time{}
	default:
		f.failed, f.opened = err, time.Time{}
		if before == nil {
			f.log.WarnContext(ctx, "the index cannot be fed; what changed is delivered later, and searches compare words", "index", f.index.Location(), "error", err)
		}
	}
}

// deliverBatch delivers the protocols that are marked longest, and returns their
// number.
func (f *Feeder) deliverBatch(ctx context.Context) (int, error) {
	m, err := f.open(ctx)
	if err != nil {
		return 0, err
	}
	entries, err := f.store.Pending(ctx, batch)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	documents, err := f.read(ctx, entries, m)
	if err != nil {
		return 0, err
	}
	refused, err := f.put(ctx, documents)
	if err != nil {
		return 0, err
	}
	if now, err := f.modelAfter(ctx, m, refused); err != nil || now != m {
		return len(entries), err
	}
	missed, err := f.store.Delivered(ctx, entries)
	if err != nil {
		return 0, err
	}
	return len(entries), f.removeDeleted(ctx, missed, m)
}

// open makes sure that the index belongs to the database and gets everything.
func (f *Feeder) open(ctx context.Context) (Model, error) {
	m, _, err := f.openBy(ctx, f.index.Make)
	return m, err
}

// openBy opens the index by one of its methods, unless that was done lately. found
// is false if there is none.
func (f *Feeder) openBy(ctx context.Context, open func(context.Context, string, Model) (string, error)) (m Model, found bool, err error) {
	if m, err = f.store.Model(ctx); err != nil {
		return m, false, err
	}
	f.mu.Lock()
	fresh := m == f.model && !f.opened.IsZero() && time.Since(f.opened) < reopenEvery
	f.mu.Unlock()
	if fresh {
		return m, true, nil
	}
	database, err := f.store.DatabaseID(ctx)
	if err != nil {
		return m, false, err
	}
	id, err := open(ctx, database, m)
	if err != nil || id == "" {
		return m, false, err
	}
	if err := f.store.Fill(ctx, id); err != nil {
		return m, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model, f.opened = m, time.Now()
	return m, true, nil
}

// read reads the present state of the protocols.
func (f *Feeder) read(ctx context.Context, entries []Entry, m Model) ([]Document, error) {
	documents := make([]Document, len(entries))
	for i, e := range entries {
		chain, err := f.store.Chain(ctx, []string{e.Space}, e.ChainID)
		if fault.CodeOf(err) == fault.NotFound {
			documents[i] = Document{Entry: e}
			continue
		}
		if err != nil {
			return nil, err
		}
		documents[i] = Document{Entry: e, Chain: chain}
		steps, hashes := make([]string, len(chain.Steps)), make([]string, len(chain.Steps))
		for s, step := range chain.Steps {
			steps[s], hashes[s] = step.UUID, protocol.PassageHash(chain.Passage(s))
		}
		if documents[i].Quality, err = f.store.Quality(ctx, e.Space, steps); err != nil {
			return nil, err
		}
		for _, step := range steps {
			if _, rated := documents[i].Quality[step]; !rated {
				documents[i].Quality[step] = library.FirstQuality()
			}
		}
		if m.Name == "" {
			continue
		}
		if documents[i].Vectors, err = f.store.Known(ctx, m.Name, hashes); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// put puts the documents into the index. One that is not accepted is left out, so
// that it does not stop the others.
func (f *Feeder) put(ctx context.Context, documents []Document) (refused []Document, err error) {
	err = f.index.Put(ctx, documents)
	if fault.CodeOf(err) != fault.InvalidArgument {
		return nil, err
	}
	for i := range documents {
		err := f.index.Put(ctx, documents[i:i+1])
		switch {
		case fault.CodeOf(err) == fault.InvalidArgument:
			f.log.WarnContext(ctx, "the index does not accept a protocol, so it is found by words only", "protocol", documents[i].ChainID, "space", documents[i].Space, "error", err)
			refused = append(refused, documents[i])
		case err != nil:
			return nil, err
		}
	}
	return refused, nil
}

// modelAfter is the model after documents were refused: another process may have
// made an index for another model, which accepts them with its vectors.
func (f *Feeder) modelAfter(ctx context.Context, before Model, refused []Document) (Model, error) {
	if len(refused) == 0 {
		return before, nil
	}
	return f.store.Model(ctx)
}

// removeDeleted removes those of the protocols that were deleted while this
// process put them into the index. Only their entries can be missed for good: any
// other change comes with a higher revision, which wins.
func (f *Feeder) removeDeleted(ctx context.Context, missed []Entry, m Model) error {
	if len(missed) == 0 {
		return nil
	}
	documents, err := f.read(ctx, missed, m)
	if err != nil {
		return err
	}
	var deleted []Document
	for _, d := range documents {
		if len(d.Chain.Steps) == 0 {
			deleted = append(deleted, d)
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	return f.index.Put(ctx, deleted)
}

// Health reports why the index is not up to date or does not answer; nil: it is
// and does.
func (f *Feeder) Health(ctx context.Context) error {
	if err := f.Check(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Check reports whether the index can be used, without changing anything.
func (f *Feeder) Check(ctx context.Context) error {
	database, err := f.store.DatabaseID(ctx)
	if err != nil {
		return err
	}
	return f.index.Check(ctx, database)
}
