package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The defaults of Config.
const (
	DefaultStart = 10 * time.Second
	DefaultCall  = 10 * time.Second
	DefaultStop  = 2 * time.Second
)

// Config says which drivers there are and how they are run. The zero value of
// every optional field works.
type Config struct {
	// Dir is the folder of the binaries; required when the lock has drivers.
	Dir string
	// Lock pins the drivers. Only locked drivers start.
	Lock Lock
	// Drivers holds settings by driver name; a driver without any is fine.
	Drivers map[string]DriverConfig
	// Start bounds a start, from the binary to the first answer. 0: DefaultStart.
	Start time.Duration
	// Call bounds a call once its driver runs; its repetition on a fresh process
	// has the same time again. 0: DefaultCall.
	Call time.Duration
	// Stop bounds first the draining of calls and then the voluntary end of a
	// process, each. 0: DefaultStop.
	Stop time.Duration
}

// DriverConfig is what an operator says of one driver.
type DriverConfig struct {
	// Config is the driver's own configuration; empty: none.
	Config json.RawMessage
	// EnvFrom names the variables of the host's environment that the driver
	// sees. It sees no others.
	EnvFrom []string
	// AllowEffects lets a driver of effect class "effects" run.
	AllowEffects bool
}

// Host runs drivers. Its methods are safe for concurrent use.
type Host struct {
	log                *slog.Logger
	dir                string
	start, call, grace time.Duration
	slots              map[string]*slot // fixed at creation
	starter            *starter
	sockets            socketBase

	ctx       context.Context // ends when Close begins: aborts starts
	cancel    context.CancelFunc
	work      sync.WaitGroup // starts and stops in the background
	closeOnce sync.Once
	closed    error
}

// New prepares a host for the locked drivers and starts no process. Call Close
// when done.
func New(cfg Config, log *slog.Logger) (*Host, error) {
	if len(cfg.Lock.Drivers) > 0 {
		if err := cfg.Lock.Validate(); err != nil {
			return nil, fmt.Errorf("driver lock: %w", err)
		}
	}
	h := &Host{
		log: log, dir: cfg.Dir, slots: make(map[string]*slot, len(cfg.Lock.Drivers)),
		start: orDefault(cfg.Start, DefaultStart), call: orDefault(cfg.Call, DefaultCall),
		grace: orDefault(cfg.Stop, DefaultStop),
	}
	for _, e := range cfg.Lock.Drivers {
		h.slots[e.Name] = newSlot(h, e, cfg.Drivers[e.Name])
	}
	for name := range cfg.Drivers {
		if h.slots[name] == nil {
			return nil, fmt.Errorf("driver %q is configured but not in the lock: "+
				"put its binary into %s and run `kairos driver lock`", name, cfg.Dir)
		}
	}
	h.starter = newStarter()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Describe returns what the named driver said of itself when it was locked and
// the sum of its binary on this platform. It starts nothing.
func (h *Host) Describe(name string) (d driver.Descriptor, sha256 string, ok bool) {
	s, ok := h.slots[name]
	if !ok {
		return driver.Descriptor{}, "", false
	}
	return s.entry.Descriptor, s.entry.SHA256[Platform()], true
}

// Challenge returns the named challenge driver. Its first call starts the
// process; a call under which the process dies is made once more on a fresh one.
func (h *Host) Challenge(name string) (driver.Challenge, bool) {
	s, ok := h.slots[name]
	if !ok || s.entry.Descriptor.Role != driver.RoleChallenge {
		return nil, false
	}
	return challengeCalls{s}, true
}

// Capability returns the named capability driver; see Challenge.
func (h *Host) Capability(name string) (driver.Capability, bool) {
	s, ok := h.slots[name]
	if !ok || s.entry.Descriptor.Role != driver.RoleCapability {
		return nil, false
	}
	return capabilityCalls{s}, true
}

// Warm starts the named drivers now, all at once and in the background, unless
// ctx is over already. A driver that does not start says so in the log and
// again when it is called. Close waits for the starts.
func (h *Host) Warm(ctx context.Context, names ...string) {
	for _, name := range names {
		if s, ok := h.slots[name]; ok && ctx.Err() == nil {
			s.warm()
		}
	}
}

// Close takes no more calls, lets those in flight finish for a bounded time,
// stops every process and waits for it. It may be called twice.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.cancel()
		for _, s := range h.slots {
			s.close()
		}
		h.work.Wait()
		h.starter.close()
		h.closed = h.sockets.remove()
	})
	return h.closed
}

type challengeCalls struct{ s *slot }

func (c challengeCalls) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	return call(ctx, c.s, func(ctx context.Context, g *generation) (driver.ValidateResult, error) {
		return g.rpc.Challenge().Validate(ctx, req)
	})
}

func (c challengeCalls) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	return call(ctx, c.s, func(ctx context.Context, g *generation) (driver.AdvanceResult, error) {
		return g.rpc.Challenge().Advance(ctx, req)
	})
}

type capabilityCalls struct{ s *slot }

func (c capabilityCalls) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return call(ctx, c.s, func(ctx context.Context, g *generation) (driver.RenderResult, error) {
		return g.rpc.Capability().Render(ctx, req)
	})
}

func (c capabilityCalls) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	return call(ctx, c.s, func(ctx context.Context, g *generation) (driver.InterpretResult, error) {
		return g.rpc.Capability().Interpret(ctx, req)
	})
}

var errEffects = errors.New("it changes the world, which needs allow_effects in its configuration")
