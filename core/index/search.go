package index

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

const (
	// nearest is how many steps the index is asked for.
	nearest = 200
	// nearTime bounds the question. An index that takes longer is left alone for
	// asideTime.
	nearTime, asideTime = 500 * time.Millisecond, time.Second
	// lookEvery is how often a search looks whether another delivery was enough.
	lookEvery = 10 * time.Millisecond
)

// Near implements outlines.Near. An index that is not up to date is not asked: it might
// not have what was just stored.
func (f *Feeder) Near(ctx context.Context, spaces []string, e library.Embedding) *search.Near {
	if !f.current(ctx) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nearTime)
	defer cancel()
	n, err := f.index.Nearest(ctx, spaces, e, nearest)
	if err != nil {
		f.log.DebugContext(ctx, "a search does without the index", "error", err)
		f.setAside()
		return nil
	}
	return n
}

// current reports whether the index has everything that searches compare. It
// delivers the last few changes itself, within patience. It does not make an index:
// that takes longer.
func (f *Feeder) current(ctx context.Context) bool {
	f.mu.Lock()
	usable := f.failed == nil && time.Now().After(f.aside)
	f.mu.Unlock()
	if !usable {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, found, err := f.openBy(ctx, f.index.Find)
	if err != nil || !found {
		f.setAside()
		return false
	}
	n, err := f.store.Behind(ctx, batch+1)
	if err != nil || n == 0 || n > batch {
		return err == nil && n == 0
	}
	if !f.catchUp(ctx) {
		f.setAside()
		return false
	}
	return true
}

// catchUp delivers, or waits while Run does, until nothing that searches compare is
// behind.
func (f *Feeder) catchUp(ctx context.Context) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		case <-f.turn:
			_, err := f.deliverBatch(ctx)
			f.note(ctx, err)
			f.turn <- struct{}{}
			if err != nil {
				return false
			}
		}
		if n, err := f.store.Behind(ctx, 1); err != nil || n == 0 {
			return err == nil
		}
	}
}

func (f *Feeder) setAside() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aside = time.Now().Add(asideTime)
}
