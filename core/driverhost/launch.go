package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// LaunchConfig configures the run of a single binary. The zero value works.
type LaunchConfig struct {
	// Confinement says how the binary is isolated, as in Options.
	Confinement Confinement
	// Start, Call and Stop: as in Config.
	Start, Call, Stop time.Duration
	// EnvFrom and Config: as in DriverConfig. Config reaches a driver of
	// transport exec with each call; any other one is configured by the caller.
	EnvFrom []string
	Config  json.RawMessage
}

// Launched is one binary that runs outside of any set, for the conformance kit. Its methods are safe for
// concurrent use.
type Launched struct {
	host       *Host
	journal    *journal
	pinned     *pinnedBinary
	transport  transport
	descriptor driver.Descriptor
	calls      driverrpc.Calls
	took       time.Duration
	stop       time.Duration
	closeOnce  sync.Once
	closed     error
}

// newTrial returns a host for binaries that are not locked. They are not trusted yet, so
// they are isolated like drivers.
func newTrial(c Confinement, log *slog.Logger) *Host {
	h := New(log, Options{Confinement: c})
	if c.Level != LevelNone {
		h.ProtectMemory()
	}
	return h
}

// once runs a binary to its end and returns what it printed.
func once(ctx context.Context, h *Host, c guardConfig, shot oneShot) ([]byte, error) {
	c.brief, c.read = true, append(c.read, h.confinement.Folders...)
	shot.guard = newGuard(filepath.Base(shot.binary.path), c, h.starter, h.confinement, h.log)
	defer shot.guard.close()
	return shot.run(ctx)
}

// Printed is what a process printed until its end.
type Printed struct {
	Stdout, Stderr []byte
	// ExitStatus is -1 if a signal ended it.
	ExitStatus int
	Took       time.Duration
}

// RunOnce runs the binary at path to its end, unlocked and isolated as a driver
// is. A process that fails is not an error; one that does not start, prints too
// much or outlives ctx is.
func RunOnce(ctx context.Context, path string, args []string, input []byte, cfg LaunchConfig) (p Printed, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return p, fmt.Errorf("run a driver: %w", err)
	}
	b, err := openBinary(path)
	if err != nil {
		return p, fmt.Errorf("run %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	h := newTrial(cfg.Confinement, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, h.Close()) }()
	env := environment(cfg.EnvFrom)
	if len(cfg.Config) > 0 {
		env = append(env, driverrpc.ConfigEnv+"="+string(cfg.Config))
	}
	began := time.Now()
	p.Stdout, err = once(ctx, h, guardConfig{use: use{write: PathsIn(cfg.Config)}}, oneShot{
		binary: b, args: args, env: env, input: input, max: maxReply,
		say: func(line []byte, _ bool) {
			if len(p.Stderr) < maxReply {
				p.Stderr = append(append(p.Stderr, line...), '\n')
			}
		},
	})
	p.Took = time.Since(began)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		p.ExitStatus, err = exit.ExitCode(), nil
	}
	if err != nil {
		return p, fmt.Errorf("run %s: %w", path, err)
	}
	return p, nil
}

// Launch describes the binary at path and starts it, unlocked. It does not
// configure it. Call Close when done.
func Launch(ctx context.Context, path string, cfg LaunchConfig, log *slog.Logger) (*Launched, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("launch a driver: %w", err)
	}
	h := newTrial(cfg.Confinement, log)
	e, err := h.describeBinary(ctx, path)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	l := &Launched{
		host: h, journal: newJournal(), descriptor: e.Descriptor, stop: orDefault(cfg.Stop, DefaultStop),
		pinned: pin(filepath.Dir(path), e, false),
	}
	if err := l.start(ctx, e, cfg, log.With("driver", e.Name)); err != nil {
		return nil, errors.Join(fmt.Errorf("launch driver %s: %w", e.Name, err), l.Close())
	}
	return l, nil
}

func (l *Launched) start(ctx context.Context, e LockedEntry, cfg LaunchConfig, log *slog.Logger) (err error) {
	within := orDefault(cfg.Start, DefaultStart)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	sp := spec{
		entry: e, config: DriverConfig{Config: cfg.Config, Folders: append(PathsIn(cfg.Config), cfg.Confinement.Folders...)}, env: environment(cfg.EnvFrom),
	}
	if l.transport, err = sp.transport(l.host, l.pinned, log, newOutputLog(log, l.journal, 1, sp.secret()), within); err != nil {
		return err
	}
	if l.calls, err = l.transport.connect(ctx, func() error { return nil }); err != nil {
		return l.transport.explain(err)
	}
	if _, err := l.calls.Describe(ctx); err != nil {
		return l.transport.explain(fmt.Errorf("describe: %w", err))
	}
	l.transport.settled()
	l.took = time.Since(began)
	return nil
}

// Calls calls the driver.
func (l *Launched) Calls() driverrpc.Calls { return l.calls }

// Descriptor is the output of --describe.
func (l *Launched) Descriptor() driver.Descriptor { return l.descriptor }

// PID is the process number, or 0 if the driver has no lasting process.
func (l *Launched) PID() int { return l.transport.pid() }

// Took is the time from the start of the process to its first answer.
func (l *Launched) Took() time.Duration { return l.took }

// Said returns what the driver printed, cleaned; at most the last 200 lines.
func (l *Launched) Said() []Line {
	lines, _ := l.journal.after(0)
	return lines
}

// Noise returns the lines that the driver printed to its stdout, where nothing
// but the handshake belongs.
func (l *Launched) Noise() []string {
	var noise []string
	for _, line := range l.Said() {
		if line.Stream == "stdout" {
			noise = append(noise, line.Text)
		}
	}
	return noise
}

// CutLifeline closes the driver's lifeline, as the death of its host does.
func (l *Launched) CutLifeline() {
	if p, ok := l.transport.(*grpcTransport); ok {
		p.process.closeLifeline()
	}
}

// Exited is closed when the process has ended; nil for a driver that has no
// lasting process.
func (l *Launched) Exited() <-chan struct{} { return l.transport.exited() }

// Close stops the driver. It may be called twice.
func (l *Launched) Close() error {
	l.closeOnce.Do(func() {
		if l.transport != nil {
			l.transport.stop(l.stop)
		}
		l.closed = errors.Join(l.pinned.close(), l.host.Close())
	})
	return l.closed
}
