package driverhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// plan describes a set.
type plan struct {
	lock         Lock
	specs        map[string]spec
	times        map[string]times  // by driver
	limits       map[string]Limits // by driver
	drainTimeout time.Duration
}

// follow assembles the set after old and starts its new drivers.
func (h *Host) follow(ctx context.Context, old *Set, p plan, files *Set, again []string) (*Set, error) {
	s, err := h.assemble(p, old, files, again)
	if err != nil {
		return nil, err
	}
	if files == nil {
		err = s.inPlace(old)
	}
	if err = errors.Join(err, s.start(ctx, old)); err != nil {
		h.Drain(s)
		h.Forget(s)
		return nil, err
	}
	return s, nil
}

// assemble creates a set that shares unchanged slots with old. If files is given, its
// open binaries are used.
func (h *Host) assemble(p plan, old, files *Set, again []string) (*Set, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errors.New("the driver host is closed")
	}
	set := &Set{host: h, plan: p, slots: make(map[string]*slot, len(p.specs)), released: make(chan struct{})}
	for name, sp := range p.specs {
		s := reusable(old, name, sp, again)
		if s == nil {
			s = newSlot(h, sp, set.times[name], pinFor(files, name, sp))
		}
		s.sets++
		s.keepers++
		set.slots[name] = s
	}
	h.sets[set], h.kept[set] = struct{}{}, struct{}{}
	if h.inUse == nil {
		h.inUse = set
	}
	return set, nil
}

// inPlace checks that the files of the drivers that continue to run are the locked
// ones: after a restart of the server others would not start. A file that is gone holds
// nobody else up: it is noted.
func (s *Set) inPlace(old *Set) error {
	var all []error
	for name, sl := range s.slots {
		if old == nil || old.slots[name] != sl || sl.spec.attach != nil {
			continue
		}
		switch err := sl.pinned.inPlace(); {
		case errors.Is(err, fs.ErrNotExist):
			s.gone = append(s.gone, fmt.Sprintf("driver %s runs on until the server restarts: %v", name, err))
		case err != nil:
			all = append(all, fmt.Errorf("driver %s: %w", name, err))
		}
	}
	slices.Sort(s.gone)
	return errors.Join(all...)
}

// Gone says of which drivers that continue to run the files are gone.
func (s *Set) Gone() []string { return s.gone }

// start starts every driver that old does not run, concurrently.
func (s *Set) start(ctx context.Context, old *Set) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(s.slots))
	for name, sl := range s.slots {
		if old != nil && old.slots[name] == sl {
			continue
		}
		wg.Go(func() {
			err := sl.ready(ctx)
			if err != nil && old != nil {
				s.host.observer.Swapped(name, err)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func reusable(old *Set, name string, sp spec, again []string) *slot {
	if old == nil || old.slots[name] == nil || !old.slots[name].spec.equal(sp) || slices.Contains(again, name) {
		return nil
	}
	return old.slots[name]
}

func pinFor(files *Set, name string, sp spec) *pinnedBinary {
	if files != nil && files.slots[name] != nil {
		return files.slots[name].pinned.again()
	}
	return pin(sp.dir, sp.entry, sp.dev)
}

// Use makes the set the one that Status and Logs show.
func (h *Host) Use(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, sl := range s.slots {
		if h.inUse != nil && h.inUse.slots[name] != sl {
			h.observer.Swapped(name, nil)
		}
		sl.setTimeouts(s.times[name])
	}
	h.inUse = s
}

// Drain refuses further holders of the set. In the background it waits for the present
// ones, at most Config.Drain, and stops the drivers that no other set has. It may be
// called twice.
func (h *Host) Drain(s *Set) {
	if !s.beginDrain() {
		return
	}
	h.work.Go(func() {
		timer := time.NewTimer(s.drainTimeout)
		defer timer.Stop()
		select {
		case <-s.released:
		case <-timer.C:
			h.log.Warn("drivers are stopped although calls still need them")
		case <-h.ctx.Done():
		}
		h.dissolve(s)
	})
}

// dissolve stops the drivers that only this set has.
func (h *Host) dissolve(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, live := h.sets[s]; !live {
		return
	}
	delete(h.sets, s)
	for _, sl := range s.slots {
		if sl.sets--; sl.sets == 0 {
			sl.close()
		}
	}
}

// Forget closes the binaries of a drained set, which cannot be restored afterwards.
// It may be called twice.
func (h *Host) Forget(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(s)
}

// forget needs the lock.
func (h *Host) forget(s *Set) {
	if _, kept := h.kept[s]; !kept {
		return
	}
	delete(h.kept, s)
	for _, sl := range s.slots {
		sl.keepers--
		h.closeBinary(sl)
	}
}

// slotEnded records that a slot has stopped and will not start again.
func (h *Host) slotEnded(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.ended = true
	h.closeBinary(s)
}

// closeBinary closes the binary of a slot that cannot be started or restored any more.
// Holders of a draining set may start its drivers until the slot has ended. Needs the
// lock.
func (h *Host) closeBinary(s *slot) {
	if s.keepers > 0 || !s.ended {
		return
	}
	if err := s.pinned.close(); err != nil {
		h.log.Warn("driver binary not closed", "driver", s.spec.entry.Name, "error", err)
	}
}

func (h *Host) forgetAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.kept {
		h.forget(s)
	}
}
