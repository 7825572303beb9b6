package driverhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// slot is the place of one driver in the host: its settings, its present
// generation, and the start that is under way.
type slot struct {
	host   *Host
	entry  LockedEntry
	config DriverConfig

	mu       sync.Mutex // guards the fields below
	current  *generation
	pending  *pending // a start under way
	number   int      // of the latest generation
	failures int      // in a row: starts that failed, crashes without a served call
	notUntil time.Time
	refused  error // why the latest start failed; nil after a crash or a success
	closed   bool
}

// pending is a start that callers wait for together.
type pending struct {
	done chan struct{} // closed when the fields below are set
	g    *generation
	err  error
}

func newSlot(h *Host, e LockedEntry, c DriverConfig) *slot {
	return &slot{host: h, entry: e, config: c}
}

// environment is what the driver sees of the host's environment.
func (s *slot) environment() []string {
	var env []string
	for _, name := range s.config.EnvFrom {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// call makes one call. When the process dies under it, it is made once more on
// a fresh process, unless the driver changes the world.
func call[Res any](ctx context.Context, s *slot, do func(context.Context, *generation) (Res, error)) (Res, error) {
	res, lost, err := attempt(ctx, s, do)
	if lost && s.entry.Descriptor.Effect != driver.EffectEffects {
		res, lost, err = attempt(ctx, s, do)
	}
	if lost {
		err = fmt.Errorf("driver %s: its process died during the call: %w", s.entry.Name, err)
	}
	return res, err
}

// attempt makes the call on the present process, or on one that it waits for.
// lost: the process died under the call, so nobody knows what became of it.
func attempt[Res any](
	ctx context.Context, s *slot, do func(context.Context, *generation) (Res, error),
) (res Res, lost bool, err error) {
	g, err := s.enter(ctx)
	if err != nil {
		return res, false, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.host.call)
	defer cancel()
	res, err = do(bounded, g)
	late := err != nil && ctx.Err() == nil && bounded.Err() != nil
	lost = err != nil && bounded.Err() == nil && g.lost(err)
	g.leave(!lost && !late)
	if lost {
		s.bury(g, err)
		return res, true, err
	}
	if late && !g.answers(ctx) {
		// One slow call is the driver's matter; a process that does not even
		// say how it is would be late for every caller from now on.
		s.bury(g, errHung)
	}
	if err != nil {
		err = fmt.Errorf("driver %s: %w", s.entry.Name, err)
	}
	return res, false, err
}

// lost reports whether an error says that the process is gone and not what the
// driver thinks. The caller's own context lives, so Canceled is the transport's.
func (g *generation) lost(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled:
		return true
	default:
		return g.process.dead()
	}
}

// enter counts a call into a ready generation, which it starts if need be.
func (s *slot) enter(ctx context.Context) (*generation, error) {
	if s.entry.Descriptor.Effect == driver.EffectEffects && !s.config.AllowEffects {
		return nil, fmt.Errorf("driver %s: %w", s.entry.Name, errEffects)
	}
	for {
		g, p, err := s.present()
		if err != nil {
			return nil, err
		}
		if g != nil {
			if g.enter() {
				return g, nil
			}
			s.bury(g, errors.New("the process has ended"))
			continue
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("driver %s is not ready yet: %w", s.entry.Name, ctx.Err())
		}
		if p.err != nil {
			return nil, p.err
		}
	}
}

// present returns the current generation, else the start to wait for.
func (s *slot) present() (*generation, *pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("driver %s: %w", s.entry.Name, errStopped)
	case s.current != nil:
		return s.current, nil, nil
	case s.pending != nil:
		return nil, s.pending, nil
	case s.refused != nil && time.Now().Before(s.notUntil):
		// It would only fail again: let the caller try something else at once.
		return nil, nil, s.refused
	}
	s.number++
	p := &pending{done: make(chan struct{})}
	s.pending = p
	number, wait := s.number, time.Until(s.notUntil)
	s.host.work.Go(func() { s.begin(p, number, wait) })
	return nil, p, nil
}

// begin starts a generation after the wait that crashes have earned.
func (s *slot) begin(p *pending, number int, wait time.Duration) {
	pause(s.host.ctx, wait)
	ctx, cancel := context.WithTimeout(s.host.ctx, s.host.start)
	defer cancel()
	began := time.Now()
	sockets, err := s.host.sockets.make()
	if err == nil {
		p.g = newGeneration(s, number, sockets)
		err = p.g.start(ctx)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(p.done)
	s.pending, s.refused, p.err = nil, err, err
	if err != nil {
		s.failures++
		s.delay()
		s.host.log.Error("driver did not start", "driver", s.entry.Name, "error", err)
		return
	}
	s.current = p.g
	s.host.work.Go(func() { s.watch(p.g) })
	p.g.log.Info("driver started", "pid", p.g.process.pid(), "took", time.Since(began))
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

// delay puts off the next start, longer with each failure in a row. Needs the lock.
func (s *slot) delay() {
	s.notUntil = time.Now().Add(min(maxDelay, firstDelay<<min(s.failures-1, 10)))
}

// watch notices when a process ends that nobody asked to.
func (s *slot) watch(g *generation) {
	<-g.process.exited
	s.bury(g, errors.New("the process has ended"))
}

// bury takes a generation that died out of service. The first crash after a
// served call costs nothing, so that the call under which it died goes on at once.
func (s *slot) bury(g *generation, cause error) {
	news, served := g.crash()
	if !news {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == g {
		s.current = nil
	}
	if served {
		s.failures = 0
	}
	if s.failures > 0 {
		s.delay()
	}
	s.failures++
	g.log.Warn("driver died", "cause", cause, "in_a_row", s.failures)
	if !s.closed { // else close stops it
		s.host.work.Go(func() { g.stop(0) })
	}
}

// warm starts the driver in the background if it does not run.
func (s *slot) warm() {
	_, _, err := s.present()
	if err != nil {
		s.host.log.Warn("driver cannot be warmed", "driver", s.entry.Name, "error", err)
	}
}

// close takes no more calls and stops what runs, in the background.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	pending, current := s.pending, s.current
	s.host.work.Go(func() {
		if pending != nil {
			<-pending.done
			current = pending.g
		}
		if current == nil {
			return // its start did not get far
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.host.grace)
		defer cancel()
		current.retire(ctx)
		current.stop(s.host.grace)
	})
}
