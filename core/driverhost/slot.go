package driverhost

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// slot is one driver with one binary and one configuration, in one or more
// sets: its settings, its present generation, and the start that is under way.
// A changed binary or configuration gets a slot of its own.
type slot struct {
	host    *Host
	journal *journal
	log     *slog.Logger
	spec    spec
	pinned  *pinnedBinary
	times   atomic.Pointer[times] // see timeouts

	secret *redactor // hides the driver's secrets

	// Guarded by host.mu.
	sets    int  // live sets that have it: it runs
	keepers int  // sets not yet forgotten that have it: its binary stays open
	ended   bool // stopped: its binary is not started any more

	ctx    context.Context // ends when the slot closes: aborts a start
	cancel context.CancelFunc

	mu        sync.Mutex // guards the fields below
	state     State
	since     time.Time
	gen       *generation // that serves, or is brought up
	startedAt time.Time
	pending   *pending // a start under way
	roots     []string // that clients have named, and the next generation sees
	breaker   breaker
	refused   error // why the latest start failed; nil after a crash or a success
	closed    bool
	idleTimer *time.Timer // while ready
}

// times are the timeouts of a driver in a set. A slot has those of the set in use.
type times struct{ start, call, stop, idle, cool time.Duration }

// idleOrNever returns a very long time if idle is negative.
func (t times) idleOrNever() time.Duration {
	if t.idle < 0 {
		return 100 * 365 * 24 * time.Hour
	}
	return t.idle
}

// pending is a start that callers wait for together.
type pending struct {
	done chan struct{} // closed when err is set
	err  error
}

func newSlot(h *Host, sp spec, at times, pinned *pinnedBinary) *slot {
	s := &slot{
		host: h, journal: h.journals.of(sp.entry.Name), log: h.log.With("driver", sp.entry.Name), spec: sp, pinned: pinned,
		secret: sp.secret(), state: Registered, since: time.Now(),
	}
	s.times.Store(&at)
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	return s
}

func (s *slot) timeouts() times { return *s.times.Load() }

// setTimeouts applies to the running process, too.
func (s *slot) setTimeouts(t times) {
	s.times.Store(&t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleTimer != nil {
		s.idleTimer.Reset(0) // it checks the idle time again
	}
}

// enter counts a call into a ready generation that sees the roots, which it starts if
// need be.
func (s *slot) enter(ctx context.Context, roots []string) (*generation, error) {
	if changesUnasked(s.spec.entry.Descriptor) && !s.spec.config.May.Has(MayChange) {
		return nil, fmt.Errorf("driver %s: %w", s.spec.entry.Name, mayNotChange(s.spec.entry.Name, s.spec.config.May, s.spec.entry.Descriptor))
	}
	for {
		g, p, err := s.present()
		if err != nil {
			return nil, err
		}
		if g != nil {
			if !g.sees(roots) {
				widen(s, g, roots)
				continue
			}
			if g.enter() {
				return g, nil
			}
			s.recordCrash(g, errEnded)
			continue
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("driver %s is not ready yet: %w", s.spec.entry.Name, ctx.Err())
		}
		if p.err != nil {
			return nil, p.err
		}
	}
}

// present returns the generation that serves, or the start to wait for.
func (s *slot) present() (*generation, *pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("driver %s: %w", s.spec.entry.Name, errStopped)
	case s.state == Ready:
		return s.gen, nil, nil
	case s.pending != nil:
		return nil, s.pending, nil
	case s.state == BreakerOpen && s.breaker.waits(now):
		return nil, nil, fmt.Errorf("driver %s failed %d times in a row and is left alone until %s: %w",
			s.spec.entry.Name, maxFailures, s.breaker.notBefore.Format(time.TimeOnly), s.breaker.cause)
	case s.refused != nil && s.breaker.waits(now):
		// It would only fail again: the caller may try something else at once.
		return nil, nil, s.refused
	}
	if s.state == BreakerOpen {
		s.breaker.trial = true
		s.move(cooledDown)
	}
	s.move(requested)
	p := &pending{done: make(chan struct{})}
	s.pending = p
	wait := time.Until(s.breaker.notBefore)
	s.host.work.Go(func() { s.begin(p, wait) })
	return nil, p, nil
}

// move applies one event. An event that the table does not have is a bug of this
// package, and there is no valid state after it. Needs the lock.
func (s *slot) move(e event) {
	to, err := s.state.step(e)
	if err != nil {
		panic(fmt.Sprintf("driverhost: %s: %v", s.spec.entry.Name, err))
	}
	s.state, s.since = to, time.Now()
}

// warm starts the driver in the background if it does not run.
func (s *slot) warm() {
	if _, _, err := s.present(); err != nil {
		s.log.Warn("driver cannot be warmed", "error", err)
	}
}

// ready starts the driver if it does not run, and waits until it does.
func (s *slot) ready(ctx context.Context) error {
	g, p, err := s.present()
	if err != nil || g != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close takes no more calls and stops what runs, in the background.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.stopIdleTimer()
	s.move(closing)
	s.cancel()
	pending := s.pending
	s.host.work.Go(func() {
		if pending != nil {
			<-pending.done
		}
		s.mu.Lock()
		g := s.gen
		s.mu.Unlock()
		if g != nil {
			g.retire(s.timeouts().stop, s.timeouts().stop)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gen = nil
		if s.state == Draining {
			s.move(drained)
		}
		s.host.work.Go(func() { s.host.slotEnded(s) })
	})
}
