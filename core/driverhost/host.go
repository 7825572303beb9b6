package driverhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Host runs drivers, in sets. Its methods are safe for concurrent use.
type Host struct {
	log      *slog.Logger
	observer Observer
	starter  *starter
	sockets  privateFolder

	confinement *confinement
	journals    journals
	reaches     reaches

	ctx       context.Context // ends when Close begins: aborts starts
	cancel    context.CancelFunc
	work      sync.WaitGroup // starts and stops in the background
	closeOnce sync.Once
	closed    error

	mu      sync.Mutex        // guards the fields below and every slot's sets, keepers and ended
	sets    map[*Set]struct{} // live: not yet dissolved
	kept    map[*Set]struct{} // not yet forgotten
	inUse   *Set
	closing bool
}

// New returns a host without drivers. It starts no process. Call Close when done.
func New(log *slog.Logger, opt Options) *Host {
	if opt.Observer == nil {
		opt.Observer = noObserver{}
	}
	h := &Host{
		log: log, observer: opt.Observer, starter: newStarter(), sockets: privateFolder{parent: socketParent},
		sets: map[*Set]struct{}{}, kept: map[*Set]struct{}{},
	}
	h.confinement = newConfinement(opt.Confinement, h.starter, log)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Load returns a set whose drivers start at their first call.
func (h *Host) Load(cfg Config) (*Set, error) {
	p, err := cfg.plan(h.ctx, h.confinement)
	if err != nil {
		return nil, err
	}
	return h.assemble(p, nil, nil, nil)
}

// Prepare creates the set that will replace old. Drivers with the same binary,
// configuration and environment are shared with old. All others, and those named in
// again, are started, described, configured and probed. After an error nothing is
// left behind and old continues. The caller must not drain old meanwhile.
func (h *Host) Prepare(ctx context.Context, old *Set, cfg Config, again ...string) (*Set, error) {
	p, err := cfg.plan(ctx, h.confinement)
	if err != nil {
		return nil, err
	}
	for _, name := range again {
		if _, ok := p.specs[name]; !ok {
			return nil, unknown(name)
		}
	}
	return h.follow(ctx, old, p, nil, again)
}

// Restore is Prepare for a set that was in use before. It runs the binaries of that set
// from their open files, even if the names have other files now. The earlier set may be
// drained, but not forgotten.
func (h *Host) Restore(ctx context.Context, old, earlier *Set) (*Set, error) {
	return h.follow(ctx, old, earlier.plan, earlier, nil)
}

// present returns the set in use.
func (h *Host) present() *Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse == nil {
		return &Set{}
	}
	return h.inUse
}

// Logs returns the lines of a driver behind a position, over all its generations, oldest
// first, and the position behind them; the latest 200 are kept. Position 0 is the first line.
func (h *Host) Logs(name string, after int) (lines []Line, next int) {
	j := h.journals.find(name)
	if j == nil {
		return nil, 0
	}
	return j.after(after)
}

// Close takes no more calls, lets those in flight finish for a bounded time,
// stops every process and waits for it. It may be called twice.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.mu.Lock()
		h.closing = true
		var sets []*Set
		for s := range h.sets {
			sets = append(sets, s)
		}
		h.mu.Unlock()
		h.cancel()
		for _, s := range sets {
			s.beginDrain()
			h.dissolve(s)
		}
		h.work.Wait()
		h.forgetAll()
		h.starter.close()
		h.closed = errors.Join(h.sockets.remove(), h.confinement.temps.remove())
	})
	return h.closed
}

func unknown(name string) error {
	return fmt.Errorf("there is no driver %q; `kairos driver list` names those that there are", name)
}
