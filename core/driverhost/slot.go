package driverhost

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second

	// A driver that fails maxFailures times within breakerWindow, not counting
	// the time that its calls took, and without a served call in between, is left
	// alone for a while.
	maxFailures   = 5
	breakerWindow = 60 * time.Second
)

// slot is one driver with one binary and one configuration, in one or more
// sets: its settings, its present generation, and the start that is under way.
// A changed binary or configuration gets a slot of its own.
type slot struct {
	host    *Host
	journal *journal
	log     *slog.Logger
	spec
	held  *held
	times atomic.Pointer[times]

	secret *redactor // what the driver knows and nobody else should

	// Guarded by host.mu.
	sets    int  // live sets that have it: it runs
	keepers int  // sets not yet forgotten that have it: its binary stays open
	over    bool // closed to the end: nobody starts its binary any more

	ctx    context.Context // ends when the slot closes: aborts a start
	cancel context.CancelFunc

	mu        sync.Mutex // guards the fields below
	state     State
	since     time.Time
	gen       *generation // that serves, or is brought up
	startedAt time.Time
	pending   *pending    // a start under way
	failures  []time.Time // crashes and failed starts since the last served call
	notUntil  time.Time   // of the next start, or of the half-open breaker
	trial     bool        // the breaker has let this start through; no call is served yet
	refused   error       // why the latest start failed; nil after a crash or a success
	brokeBy   error       // the failure that opened the breaker
	closed    bool
	idleTimer *time.Timer // while ready
}

// spec is what makes a slot: two that are equal are the same driver.
type spec struct {
	entry  LockedEntry
	config DriverConfig
	env    []string // name=value, as the host's environment was
	dir    string
	dev    bool
	attach *driverrpc.Attachment
}

// times are those of a driver in a set. A slot has those of the set in use.
type times struct{ start, call, stop, idle, cool time.Duration }

func (s spec) equal(o spec) bool {
	return s.entry.sameAs(o.entry) && s.config.equal(o.config) && slices.Equal(s.env, o.env) && s.dir == o.dir && s.dev == o.dev &&
		(s.attach == nil) == (o.attach == nil) && (s.attach == nil || *s.attach == *o.attach)
}

// sameAs compares what is executed here; sums of other platforms do not matter.
func (e LockedEntry) sameAs(o LockedEntry) bool {
	return e.Name == o.Name && e.Version == o.Version && e.File == o.File &&
		e.SHA256[Platform()] == o.SHA256[Platform()] && sameDescriptor(e.Descriptor, o.Descriptor)
}

func (c DriverConfig) equal(o DriverConfig) bool {
	return sameDocument(c.Config, o.Config) && slices.Equal(c.EnvFrom, o.EnvFrom) && c.AllowEffects == o.AllowEffects &&
		c.Network == o.Network && c.MemoryMiB == o.MemoryMiB && slices.Equal(c.Folders, o.Folders)
}

func sameDocument(a, b json.RawMessage) bool {
	var x, y any
	if (len(a) > 0 && json.Unmarshal(a, &x) != nil) || (len(b) > 0 && json.Unmarshal(b, &y) != nil) {
		return string(a) == string(b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func (s *slot) limits() times { return *s.times.Load() }

// allow sets the times that apply from now on, to the running process, too.
func (s *slot) allow(t times) {
	s.times.Store(&t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleTimer != nil {
		s.idleTimer.Reset(0) // looks how long it was idle, and how long it may be
	}
}

// idleOrNever is a very long time where idle is negative.
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

func newSlot(h *Host, sp spec, at times, held *held) *slot {
	s := &slot{
		host: h, journal: h.journalOf(sp.entry.Name), log: h.log.With("driver", sp.entry.Name), spec: sp, held: held,
		secret: sp.secret(), state: Registered, since: time.Now(),
	}
	s.times.Store(&at)
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	return s
}

// environment is what a driver sees of the host's environment.
func environment(names []string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// notCalledError is why a driver was never reached, so that it cannot have acted.
type notCalledError struct{ error }

func (e notCalledError) Unwrap() error { return e.error }

// NotCalled lets the engine tell it from a call that was lost.
func (notCalledError) NotCalled() bool { return true }

// asked is what a call asks for.
type asked struct {
	method string
	// recurs is the request, where the same one is likely to come again: a pure
	// driver has then to answer it only once.
	recurs any
	// within bounds the call; 0: the driver's own time.
	within time.Duration
}

// call makes one call. When the process dies under it, it is made once more on
// a fresh process, unless the driver changes the world.
func call[Res any](
	ctx context.Context, s *slot, ask asked, sound func(Res, func(string) string) (Res, error),
	do func(context.Context, driverrpc.Calls) (Res, error),
) (Res, error) {
	began := time.Now()
	res, lost, err := attempt(ctx, s, ask, do)
	again := lost && s.entry.Descriptor.Effect != driver.EffectEffects
	if again {
		s.journal.repeated()
		res, lost, err = attempt(ctx, s, ask, do)
	}
	if lost {
		err = fmt.Errorf("driver %s: its process died during the call: %w", s.entry.Name, err)
	}
	if err == nil {
		if res, err = sound(res, s.text); err != nil {
			err = fmt.Errorf("driver %s: %w", s.entry.Name, err)
		}
	}
	took := time.Since(began)
	s.journal.called(ask.method, took, err)
	s.host.tell.Called(Call{Driver: s.entry.Name, Method: ask.method, Took: took, Err: err, Repeated: again})
	return res, err
}

// attempt makes the call on the present process, or on one that it waits for.
// lost: the process died under the call, so nobody knows what became of it.
func attempt[Res any](
	ctx context.Context, s *slot, ask asked, do func(context.Context, driverrpc.Calls) (Res, error),
) (res Res, lost bool, err error) {
	g, err := s.enter(ctx)
	if err != nil {
		return res, false, notCalledError{err}
	}
	if key, ok := s.rememberedAs(ask); ok {
		if res, ok := recall[Res](g.memory, key); ok {
			g.leave(false)
			return res, false, nil
		}
		defer func() {
			if err == nil {
				g.memory.keep(key, res)
			}
		}()
	}
	began, within := time.Now(), cmp.Or(ask.within, s.limits().call)
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	res, err = do(bounded, g.rpc)
	// The driver has the same deadline, and may be the first to notice.
	late := err != nil && ctx.Err() == nil && (bounded.Err() != nil || status.Code(err) == codes.DeadlineExceeded)
	lost = err != nil && !late && bounded.Err() == nil && g.lost(err)
	gone := err != nil && ctx.Err() != nil // the caller; that says nothing of the driver
	raw := s.secret.hideIn(err)
	err = s.inWords(raw, lost, late, within)
	g.leave(!lost && !late && !gone)
	switch {
	case lost && g.link.lasting():
		s.bury(g, raw)
		return res, true, err
	case lost && !gone:
		s.stumble(g, raw)
		return res, true, err
	case late:
		s.late(ctx, g)
	case gone && time.Since(began) > probeTime:
		s.host.work.Go(func() { s.probe(s.ctx, g) })
	case !gone:
		s.served(g)
	}
	if err != nil {
		err = fmt.Errorf("driver %s: %w", s.entry.Name, err)
	}
	return res, false, err
}

// rememberedAs is under what the answer may be kept. Of a driver that an author
// runs under a debugger every call has to arrive, and of one that is executed
// for each call the bytes are looked at each time.
func (s *slot) rememberedAs(ask asked) (memoryKey, bool) {
	d := s.entry.Descriptor
	if d.Effect != driver.EffectPure || d.Transport != driver.TransportGRPC || s.attach != nil {
		return memoryKey{}, false
	}
	return keyOf(ask.method, ask.recurs)
}

// text makes a text of the driver fit to be shown.
func (s *slot) text(of string) string { return s.secret.hide(shown(of)) }

// toldError is an error in words that people and agents may read.
type toldError struct {
	text  string
	cause error
}

func (e *toldError) Error() string { return e.text }

func (e *toldError) Unwrap() error { return e.cause }

// inWords leaves out what only concerns the transport: codes, and the paths of
// sockets.
func (s *slot) inWords(err error, lost, late bool, within time.Duration) error {
	switch {
	case err == nil:
		return nil
	case late:
		return &toldError{fmt.Sprintf("it did not answer within %v", within), err}
	case lost && s.entry.Descriptor.Transport == driver.TransportGRPC:
		return &toldError{"the connection to it broke", err}
	}
	return &toldError{oneLine(status.Convert(err).Message()), err}
}

// oneLine makes a driver's error fit for a log line and a terminal.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(shown(text), func(r rune) bool { return r == '\n' }), "; ")
}

// probe replaces a process that does not answer a health check, and reports
// whether it does answer. One caller at a time asks; the others get false.
func (s *slot) probe(ctx context.Context, g *generation) bool {
	if !g.link.lasting() || !g.probing.CompareAndSwap(false, true) {
		return false
	}
	defer g.probing.Store(false)
	if g.answers(ctx) {
		return true
	}
	s.bury(g, errHung)
	return false
}

// late counts a call that timed out. A process that does not even answer a
// health check is replaced at once. One that does may still be busy with the
// call, which nobody can see from outside, so new calls go to a fresh process
// and this one ends when its other calls have ended.
func (s *slot) late(ctx context.Context, g *generation) {
	if s.attach != nil {
		s.probe(ctx, g) // somebody debugs it
		return
	}
	if s.probe(ctx, g) || !g.link.lasting() && s.tooMany(g) {
		s.replace(g)
	}
}

// tooMany counts the failure of a process that served one call alone, and
// reports whether it is enough to take the driver out of service.
func (s *slot) tooMany(g *generation) bool {
	g.stumbled()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.failures = append(s.recent(now), now)
	return s.trial || len(s.failures) >= maxFailures
}

// replace takes a generation out of service under which a call timed out. It
// counts as one failure, however many calls were late.
func (s *slot) replace(g *generation) {
	if news, _ := g.crash(); !news {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == g && s.state == Ready {
		s.gen = nil
		s.stopIdleTimer()
		s.fail(overdue, errSlow)
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
	case <-g.idle:
		if s.entry.Descriptor.Effect == driver.EffectEffects {
			pause(s.ctx, s.limits().call)
		}
	case <-g.link.exited():
	case <-s.ctx.Done():
		select {
		case <-g.idle:
		case <-time.After(s.limits().stop):
		}
	}
	g.link.stop(s.limits().stop)
}

// stumble counts the death of a process that served one call alone. Only too
// many of them take the driver out of service.
func (s *slot) stumble(g *generation, cause error) {
	if s.tooMany(g) {
		s.bury(g, cause)
		return
	}
	s.journal.crashed(cause)
	s.host.tell.Crashed(s.entry.Name)
	s.journal.note(g.number, slog.LevelWarn, oneLine(fmt.Sprintf("a process of it died: %v", cause)))
}

// recent leaves out the failures that the breaker has forgotten. Calls that
// time out one after the other are spread over the time they may take. Needs the lock.
func (s *slot) recent(now time.Time) []time.Time {
	window := breakerWindow + maxFailures*s.limits().call
	return slices.DeleteFunc(s.failures, func(at time.Time) bool { return now.Sub(at) > window })
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
			s.bury(g, errEnded)
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

// present returns the generation that serves, else the start to wait for.
func (s *slot) present() (*generation, *pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("driver %s: %w", s.entry.Name, errStopped)
	case s.state == Ready:
		return s.gen, nil, nil
	case s.pending != nil:
		return nil, s.pending, nil
	case s.state == BreakerOpen && time.Now().Before(s.notUntil):
		return nil, nil, fmt.Errorf("driver %s failed %d times in a row and is left alone until %s: %w",
			s.entry.Name, maxFailures, s.notUntil.Format(time.TimeOnly), s.brokeBy)
	case s.refused != nil && time.Now().Before(s.notUntil):
		// It would only fail again: let the caller try something else at once.
		return nil, nil, s.refused
	}
	if s.state == BreakerOpen {
		s.trial = true
		s.move(cooled)
	}
	s.move(wanted)
	p := &pending{done: make(chan struct{})}
	s.pending = p
	wait := time.Until(s.notUntil)
	s.host.work.Go(func() { s.begin(p, wait) })
	return nil, p, nil
}

// move applies one happening. What the table does not have is a mistake of this
// package, and there is no state to go on from. Needs the lock.
func (s *slot) move(h happening) {
	to, err := s.state.step(h)
	if err != nil {
		panic(fmt.Sprintf("driverhost: %s: %v", s.entry.Name, err))
	}
	s.state, s.since = to, time.Now()
}

// begin starts a generation after the wait that crashes have earned.
func (s *slot) begin(p *pending, wait time.Duration) {
	pause(s.ctx, wait)
	ctx, cancel := context.WithTimeout(s.ctx, s.limits().start)
	defer cancel()
	began := time.Now()
	g, err := s.generate(ctx)
	if err != nil {
		hid := s.secret.hideIn(err)
		err = &toldError{oneLine(fmt.Sprintf("start driver %s: %v", s.entry.Name, hid)), hid}
	}
	s.host.tell.Started(s.entry.Name, time.Since(began), err)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(p.done)
	s.pending, s.refused, p.err = nil, err, err
	if err != nil {
		s.gen = nil
		if s.closed {
			return
		}
		s.fail(failed, err)
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
	s.journal.note(g.number, slog.LevelInfo, fmt.Sprintf("started as process %d", g.link.pid()))
	g.log.Info("driver started", "pid", g.link.pid(), "took", time.Since(began))
}

// generate makes a generation and brings it to ready, or stops it.
func (s *slot) generate(ctx context.Context) (*generation, error) {
	number := s.journal.nextGeneration()
	log := s.log.With("generation", number)
	l, err := s.link(s.host, s.held, log, newSayings(log, s.journal, number, s.secret), s.limits().start)
	if err != nil {
		return nil, err
	}
	g := newGeneration(log, number, l)
	s.mu.Lock()
	s.gen = g
	s.mu.Unlock()
	err = g.bringUp(ctx, s, func(h happening) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return errStopped
		}
		s.move(h)
		return nil
	})
	if err != nil {
		g.crash()
		g.link.stop(0)
		return nil, g.link.explain(err)
	}
	return g, nil
}

// link makes the way to reach the driver that its descriptor asks for.
func (s spec) link(h *Host, held *held, log *slog.Logger, says *sayings, within time.Duration) (link, error) {
	if s.attach != nil {
		return &attachLink{to: *s.attach}, nil
	}
	guard := newGuard(s.entry.Name, guardConfig{
		memoryMiB: s.config.MemoryMiB, offline: s.config.Network == NetworkDeny,
		launcher: s.entry.Descriptor.Has(driver.FeatureLauncher), use: s.config.folders(),
	}, h.starter, h.confinement, log)
	if s.entry.Descriptor.Transport == driver.TransportExec {
		// A folder that is made while the process runs would not be hidden from it.
		if _, err := h.sockets.make(); err != nil {
			return nil, err
		}
		return &execLink{held: held, descriptor: s.entry.Descriptor, options: execOptions{
			guard: guard, env: slices.Clone(s.env), config: s.config.Config, says: says, secret: s.secret(),
		}}, nil
	}
	return newGRPCLink(log, h, guard, held, slices.Clone(s.env), says, within)
}

// secret knows what is not to be shown of the driver.
func (s spec) secret() *redactor {
	return newRedactor(s.env, s.config.Config, s.entry.Descriptor.ConfigSchema)
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

// served notes that the driver works: what went wrong before does not count.
func (s *slot) served(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == g {
		s.failures, s.trial = nil, false
	}
}

// fail counts a failed start or a crash, and decides when the next start may
// be: later with each failure in a row. Needs the lock.
func (s *slot) fail(h happening, cause error) {
	now := time.Now()
	s.failures = append(s.recent(now), now)
	if s.trial || len(s.failures) >= maxFailures {
		s.move(tripped)
		s.host.tell.BreakerOpened(s.entry.Name)
		s.failures, s.trial, s.brokeBy, s.notUntil = nil, false, cause, now.Add(s.limits().cool)
		s.log.Error("driver failed too often and is left alone", "until", s.notUntil)
		s.journal.note(0, slog.LevelError, "it failed too often and is left alone until "+s.notUntil.Format(time.TimeOnly))
		return
	}
	s.move(h)
	in := len(s.failures)
	if h != failed {
		in-- // the first crash or timeout after a served call costs nothing
	}
	s.notUntil = now
	if in > 0 {
		s.notUntil = now.Add(min(maxDelay, firstDelay<<min(in-1, 10)))
	}
}

// watch notices when a process ends that nobody asked to.
func (s *slot) watch(g *generation) {
	select {
	case <-g.link.exited():
		s.bury(g, s.secret.hideIn(g.link.explain(errEnded)))
	case <-g.idle: // out of service: whoever did that stops it
	}
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
	if s.gen == g && s.state == Ready {
		s.gen = nil
		s.stopIdleTimer()
		if served {
			s.failures, s.trial = nil, false
		}
		s.fail(died, errDied)
	}
	s.journal.crashed(cause)
	s.host.tell.Crashed(s.entry.Name)
	s.journal.note(g.number, slog.LevelWarn, oneLine(fmt.Sprintf("its process died: %v", cause)))
	g.log.Warn("driver died", "cause", cause, "state", s.state)
	if !s.closed { // else close stops it
		s.host.work.Go(func() { g.link.stop(0) })
	}
}

// watchIdle stops the generation when nobody has needed it for long. Needs the lock.
func (s *slot) watchIdle(g *generation) *time.Timer {
	if s.attach != nil {
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(s.limits().idleOrNever(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.gen != g || s.state != Ready || s.closed {
			return
		}
		idle := s.limits().idleOrNever()
		retired, wait := g.retireUnused(idle)
		if !retired {
			timer.Reset(wait)
			return
		}
		s.gen = nil
		s.move(unused)
		s.journal.note(g.number, slog.LevelInfo, "stopped because nobody needs it")
		g.log.Info("driver is stopped because nobody needs it", "idle", idle)
		s.host.work.Go(func() { g.link.stop(s.limits().stop) })
	})
	return timer
}

func (s *slot) stopIdleTimer() {
	if s.idleTimer != nil {
		s.idleTimer.Stop()
		s.idleTimer = nil
	}
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
	s.move(retired)
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
			ctx, cancel := context.WithTimeout(context.Background(), s.limits().stop)
			defer cancel()
			g.retire(ctx)
			g.link.stop(s.limits().stop)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gen = nil
		if s.state == Draining {
			s.move(ended)
		}
		s.host.work.Go(func() { s.host.ended(s) })
	})
}
