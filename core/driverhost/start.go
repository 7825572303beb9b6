package driverhost

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// begin starts a generation after the delay of the breaker.
func (s *slot) begin(p *pending, wait time.Duration) {
	pause(s.ctx, wait)
	ctx, cancel := context.WithTimeout(s.ctx, s.timeouts().start)
	defer cancel()
	began := time.Now()
	g, err := s.generate(ctx)
	if err != nil {
		hid := s.secret.hideIn(err)
		err = &toldError{oneLine(fmt.Sprintf("start driver %s: %v", s.spec.entry.Name, hid)), hid}
	}
	s.host.observer.Started(s.spec.entry.Name, time.Since(began), err)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(p.done)
	s.pending, s.refused, p.err = nil, err, err
	if err != nil {
		s.gen = nil
		if s.closed {
			return
		}
		s.recordFailure(failed, err)
		s.journal.failed(err)
		s.journal.note(0, slog.LevelError, err.Error())
		s.log.Error("driver did not start", "state", s.state, "error", err)
		return
	}
	if s.closed {
		return // close stops it
	}
	s.startedAt = time.Now()
	s.idleTimer = s.watchIdle(g)
	s.host.work.Go(func() { s.watch(g) })
	s.journal.note(g.number, slog.LevelInfo, fmt.Sprintf("started as process %d", g.transport.pid()))
	g.log.Info("driver started", "pid", g.transport.pid(), "took", time.Since(began))
}

// generate creates a generation and makes it ready, or stops it.
func (s *slot) generate(ctx context.Context) (*generation, error) {
	number := s.journal.nextGeneration()
	log := s.log.With("generation", number)
	s.mu.Lock()
	sp := s.spec
	sp.roots = s.roots
	s.mu.Unlock()
	s.host.reaches.started(s)
	l, err := sp.transport(s.host, s.pinned, log, newOutputLog(log, s.journal, number, s.secret), s.timeouts().start)
	if err != nil {
		return nil, err
	}
	g := newGeneration(log, number, l)
	g.roots = sp.roots
	s.mu.Lock()
	s.gen = g
	s.mu.Unlock()
	err = g.bringUp(ctx, s, func(e event) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return errStopped
		}
		s.move(e)
		return nil
	})
	if err != nil {
		g.withdraw()
		g.transport.stop(0)
		return nil, g.transport.explain(err)
	}
	return g, nil
}

// watchIdle stops the generation when it has been idle for long. Needs the lock.
func (s *slot) watchIdle(g *generation) *time.Timer {
	if s.spec.attach != nil {
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(s.timeouts().idleOrNever(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.gen != g || s.state != Ready || s.closed {
			return
		}
		idle := s.timeouts().idleOrNever()
		withdrawn, wait := g.withdrawIdle(idle)
		if !withdrawn {
			timer.Reset(wait)
			return
		}
		s.gen = nil
		s.move(idled)
		s.journal.note(g.number, slog.LevelInfo, "stopped because it was idle")
		g.log.Info("idle driver is stopped", "idle", idle)
		s.host.work.Go(func() { g.transport.stop(s.timeouts().stop) })
	})
	return timer
}

func (s *slot) stopIdleTimer() {
	if s.idleTimer != nil {
		s.idleTimer.Stop()
		s.idleTimer = nil
	}
}

func pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
