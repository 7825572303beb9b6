package driverhost

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// recordSuccess records that the driver served a call.
func (s *slot) recordSuccess(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == g {
		s.breaker.succeed()
	}
}

// recordTimeout records a call that timed out. A process that does not even answer a
// health check is replaced at once. One that does may still be busy with the
// call, so new calls get a fresh process, and this one is stopped when its other
// calls have ended.
func (s *slot) recordTimeout(ctx context.Context, g *generation) {
	if s.spec.attach != nil {
		s.probe(ctx, g) // an author debugs it
		return
	}
	if s.probe(ctx, g) || !g.transport.lasting() && s.countCallCrash(g) {
		s.replace(g)
	}
}

// probe replaces a process that does not answer a health check, and reports
// whether it does answer. One caller at a time asks; the others get false.
func (s *slot) probe(ctx context.Context, g *generation) bool {
	if !g.transport.lasting() || !g.probing.CompareAndSwap(false, true) {
		return false
	}
	defer g.probing.Store(false)
	if g.answers(ctx) {
		return true
	}
	s.recordCrash(g, errHung)
	return false
}

// replace takes a generation out of service under which a call timed out. It
// counts as one failure, however many calls were late.
func (s *slot) replace(g *generation) {
	if withdrawn, _ := g.withdraw(); !withdrawn {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == g && s.state == Ready {
		s.gen = nil
		s.stopIdleTimer()
		s.recordFailure(timedOut, errSlow)
	}
	s.journal.note(g.number, slog.LevelWarn, "replaced: "+errLate.Error())
	g.log.Warn("driver is replaced", "cause", errLate, "state", s.state)
	if !s.closed { // else close stops it
		s.host.work.Go(func() { s.drain(g) })
	}
}

// drain stops a replaced generation once its other calls have ended. An action
// may still be under way in a call that timed out, so it gets more time.
func (s *slot) drain(g *generation) {
	select {
	case <-g.drained:
		if s.spec.entry.Descriptor.Effect == driver.EffectChanges {
			pause(s.ctx, s.timeouts().call)
		}
	case <-g.transport.exited():
	case <-s.ctx.Done():
		select {
		case <-g.drained:
		case <-time.After(s.timeouts().stop):
		}
	}
	g.transport.stop(s.timeouts().stop)
}

// countCallCrash counts the crash of a process that served one call alone, and
// reports whether there are enough to replace the generation.
func (s *slot) countCallCrash(g *generation) bool {
	g.processDied()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.add(time.Now(), s.timeouts().failureWindow())
}

// recordCallCrash records the crash of a process that served one call alone. Only
// too many of them take the driver out of service.
func (s *slot) recordCallCrash(g *generation, cause error) {
	if s.countCallCrash(g) {
		s.recordCrash(g, cause)
		return
	}
	s.journal.crashed(cause)
	s.host.observer.Crashed(s.spec.entry.Name)
	s.journal.note(g.number, slog.LevelWarn, oneLine(fmt.Sprintf("a process of it died: %v", cause)))
}

// recordCrash takes a generation whose process died out of service. The first crash
// after a served call causes no delay, so that the call can be repeated at once.
func (s *slot) recordCrash(g *generation, cause error) {
	withdrawn, served := g.withdraw()
	if !withdrawn {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == g && s.state == Ready {
		s.gen = nil
		s.stopIdleTimer()
		if served {
			s.breaker.succeed()
		}
		s.recordFailure(died, errDied)
	}
	s.journal.crashed(cause)
	s.host.observer.Crashed(s.spec.entry.Name)
	s.journal.note(g.number, slog.LevelWarn, oneLine(fmt.Sprintf("its process died: %v", cause)))
	g.log.Warn("driver died", "cause", cause, "state", s.state)
	if !s.closed { // else close stops it
		s.host.work.Go(func() { g.transport.stop(0) })
	}
}

// watch records when the process ends unexpectedly.
func (s *slot) watch(g *generation) {
	select {
	case <-g.transport.exited():
		s.recordCrash(g, s.secret.hideIn(g.transport.explain(errEnded)))
	case <-g.drained: // withdrawn, and stopped by the caller of withdraw
	}
}

// recordFailure counts a failed start, a crash or a timeout, and decides when the
// driver may start again. Needs the lock.
func (s *slot) recordFailure(e event, cause error) {
	now := time.Now()
	if s.breaker.add(now, s.timeouts().failureWindow()) {
		s.move(tripped)
		s.host.observer.BreakerOpened(s.spec.entry.Name)
		until := now.Add(s.timeouts().cool)
		s.breaker.open(until, cause)
		s.log.Error("driver failed too often and is not started for a while", "until", until)
		s.journal.note(0, slog.LevelError, "it failed too often and is not started until "+until.Format(time.TimeOnly))
		return
	}
	s.move(e)
	s.breaker.delay(now, e != failed) // the first crash or timeout after a served call is free
}

// failureWindow is the time that the breaker looks back. Calls that time out one after
// the other are spread over the time they may take.
func (t times) failureWindow() time.Duration { return breakerWindow + maxFailures*t.call }
