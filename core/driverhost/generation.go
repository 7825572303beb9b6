package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// transport is the connection of a generation to its driver: a process that serves gRPC, one
// process a call, or a process that somebody else has started.
type transport interface {
	// connect reaches the driver; verified is called when its binary is.
	// After an error, and after the end of ctx, only stop and explain are called.
	connect(ctx context.Context, verified func() error) (driverrpc.Calls, error)
	// settled is called after the driver's first answer.
	settled()
	// lasting reports whether one process serves all calls, so that one that is
	// late or dies says something about the others.
	lasting() bool
	// exited is closed when the driver cannot be reached any more. It is nil where that cannot happen.
	exited() <-chan struct{}
	// pid is the process number, or 0 without a process of its own.
	pid() int
	// explain adds to an error why the driver ended, if that is known.
	explain(err error) error
	// protection describes in words how the driver is isolated and limited.
	protection() []string
	// stop ends everything within grace and frees it. It may be called twice.
	stop(grace time.Duration)
}

// generation is one start of a driver. It never restarts: a driver that crashed or is
// swapped gets a new generation.
type generation struct {
	log       *slog.Logger
	number    int
	transport transport
	roots     []string        // that it was started to see
	rpc       driverrpc.Calls // set by bringUp
	memory    memory

	probing atomic.Bool

	mu       sync.Mutex    // guards the fields below
	warnings []string      // of the driver about its configuration
	open     bool          // takes calls
	calls    int           // in flight
	served   bool          // has answered a call
	used     time.Time     // when the last call ended
	drained  chan struct{} // closed when withdrawn and without calls
	empty    bool          // drained is closed
}

func newGeneration(log *slog.Logger, number int, l transport) *generation {
	return &generation{log: log, number: number, transport: l, memory: newMemory(), drained: make(chan struct{})}
}

// bringUp makes the generation ready for calls. It calls reach after every step that
// succeeded.
func (g *generation) bringUp(ctx context.Context, s *slot, reach func(event) error) error {
	rpc, err := g.transport.connect(ctx, func() error { return reach(verified) })
	if err != nil {
		return err
	}
	g.rpc = rpc
	if err := reach(connected); err != nil {
		return err
	}
	steps := []struct {
		do   func(context.Context, *slot) error
		then event
	}{
		{g.describe, described}, {g.configure, configured},
		{func(ctx context.Context, _ *slot) error { return g.rpc.CheckHealth(ctx) }, probed},
	}
	for _, step := range steps {
		if err := step.do(ctx, s); err != nil {
			return err
		}
		if step.then == probed {
			g.admit()
		}
		if err := reach(step.then); err != nil {
			return err
		}
	}
	return nil
}

// describe compares the running driver with its descriptor in the lock.
func (g *generation) describe(ctx context.Context, s *slot) error {
	d, err := g.rpc.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if !sameDescriptor(d, s.spec.entry.Descriptor) {
		return errors.New("its descriptor differs from drivers.lock; run `kairos driver lock` if you trust the binary")
	}
	g.transport.settled()
	return nil
}

func sameDescriptor(a, b driver.Descriptor) bool {
	compact := func(d driver.Descriptor) map[string]any {
		var m map[string]any
		raw, err := json.Marshal(d)
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			return map[string]any{"unreadable": err.Error()}
		}
		return m
	}
	return reflect.DeepEqual(compact(a), compact(b))
}

// configure lets the driver check its configuration in a dry run first.
func (g *generation) configure(ctx context.Context, s *slot) error {
	for _, dryRun := range []bool{true, false} {
		found, err := g.rpc.Configure(ctx, s.spec.config.Config, dryRun)
		if err != nil {
			return fmt.Errorf("configure: %w", err)
		}
		if err := g.judge(found, dryRun, s); err != nil {
			return err
		}
	}
	return nil
}

func (g *generation) judge(found []driver.Diagnostic, dryRun bool, s *slot) error {
	var problems []string
	for _, d := range found {
		if d.Severity == driver.SeverityError {
			problems = append(problems, fmt.Sprintf("%s: %s", d.Pointer, d.Message))
			continue
		}
		if dryRun {
			g.warn(plain.TextWithin(d.Pointer, maxText), s.secret.hide(d.Message))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("its configuration is refused: %s", strings.Join(problems, "; "))
	}
	return nil
}

func (g *generation) warn(pointer, warning string) {
	g.log.Warn("driver warns about its configuration", "pointer", pointer, "warning", warning)
	if pointer != "" {
		warning = pointer + ": " + warning
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings = append(g.warnings, warning)
}

func (g *generation) warned() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.warnings)
}

func (g *generation) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.used = true, time.Now()
}

// enter counts a call in, or returns false if the generation is out of service.
func (g *generation) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open || g.dead() {
		return false
	}
	g.calls++
	return true
}

// endCall counts a call out.
func (g *generation) endCall(answered bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	g.used = time.Now()
	g.served = g.served || answered
	g.closeIfDrained()
}

// closeIfDrained needs the lock.
func (g *generation) closeIfDrained() {
	if !g.open && g.calls == 0 && !g.empty {
		g.empty = true
		close(g.drained)
	}
}

// withdraw takes the generation out of service. It reports whether it was in service
// and whether it has served a call.
func (g *generation) withdraw() (withdrawn, served bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	withdrawn, g.open = g.open, false
	g.closeIfDrained()
	return withdrawn, g.served
}

// processDied records that one of several processes died; other calls continue.
func (g *generation) processDied() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.served = false
}

// withdrawIdle takes the generation out of service if it was idle for that long;
// otherwise it returns how long to wait before the next check.
func (g *generation) withdrawIdle(limit time.Duration) (withdrawn bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return false, limit
	}
	if rest := limit - time.Since(g.used); g.calls > 0 || rest > 0 {
		return false, max(rest, limit/10)
	}
	g.open = false
	g.closeIfDrained()
	return true, 0
}

// retire lets the calls in flight end within one time, and the process within another.
func (g *generation) retire(calls, process time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), calls)
	defer cancel()
	g.drain(ctx)
	g.transport.stop(process)
}

// drain takes no more calls and waits until those in flight end, the process is gone, or
// ctx ends, whoever took the generation out of service.
func (g *generation) drain(ctx context.Context) {
	g.withdraw()
	select {
	case <-g.drained:
	case <-ctx.Done():
		g.log.Warn("driver is stopped under calls that do not end")
	case <-g.transport.exited():
	}
}

func (g *generation) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// dead reports whether the driver cannot be reached any more.
func (g *generation) dead() bool {
	select {
	case <-g.transport.exited():
		return true
	default:
		return false
	}
}

// processGone reports whether the error means that the process is gone. The caller's own
// context is not done, so Canceled comes from the transport.
func (g *generation) processGone(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled:
		return true
	default:
		return g.dead()
	}
}

// probeTime is the timeout of the health check after a late call.
const probeTime = time.Second

// errHung is the reason to replace a process that is alive but does not answer.
var errHung = errors.New("it does not answer")

// answers checks the health of a driver that was late.
func (g *generation) answers(ctx context.Context) bool {
	// If the caller leaves meanwhile, the driver is not to blame.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	return g.rpc.CheckHealth(ctx) == nil || ctx.Err() == nil
}

// Reasons why the breaker opened, other than failed starts.
var (
	errDied = errors.New("its process died again and again")
	errSlow = errors.New("its calls timed out again and again")
)

// errLate is the reason to replace a process that answers health checks.
var errLate = errors.New("a call timed out, and may never return")

var (
	errEnded = errors.New("it ended unexpectedly")
	errBroke = errors.New("it closed its connection and runs on")
	// errStatusZero is how a process ended of which nothing else is known.
	errStatusZero = errors.New("exit status 0")
)

// obituary is how long the end of a process is waited for after its connection broke.
const obituary = time.Second

// lostBy is why calls were lost, for operators.
func (g *generation) lostBy() error {
	timer := time.NewTimer(obituary)
	defer timer.Stop()
	select {
	case <-g.transport.exited():
		return g.transport.explain(errEnded)
	case <-timer.C:
		return g.transport.explain(errBroke)
	}
}

// saidError is an error with the last lines that a driver printed. They are for operators.
type saidError struct {
	error
	lines string
}

func (e *saidError) Error() string { return e.error.Error() + "; it said: " + e.lines }

func (e *saidError) Unwrap() error { return e.error }

// withoutLines is the text of an error without what the driver printed.
func withoutLines(err error) string {
	if said, ok := errors.AsType[*saidError](err); ok {
		return said.error.Error()
	}
	return err.Error()
}

var errStopped = errors.New("it was taken out of service")
