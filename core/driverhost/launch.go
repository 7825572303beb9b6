package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// LaunchConfig says how a single binary is run. The zero value works.
type LaunchConfig struct {
	// Start, Call and Stop: as in Config.
	Start, Call, Stop time.Duration
	// EnvFrom and Config: as in DriverConfig. Config reaches a driver of
	// transport exec with each call; any other one is configured by the caller.
	EnvFrom []string
	Config  json.RawMessage
}

// Launched is one binary that runs outside of any set, on its own: what a
// conformance kit holds against the contract. Its methods are safe for
// concurrent use.
type Launched struct {
	host       *Host
	journal    *journal
	held       *held
	link       link
	descriptor driver.Descriptor
	calls      driverrpc.Calls
	took       time.Duration
	stop       time.Duration
	closeOnce  sync.Once
	closed     error
}

// Launch describes the binary at path and starts it, unlocked. It does not
// configure it. Call Close when done.
func Launch(ctx context.Context, path string, cfg LaunchConfig, log *slog.Logger) (*Launched, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("launch a driver: %w", err)
	}
	e, err := describeBinary(ctx, path)
	if err != nil {
		return nil, err
	}
	h := New(log, Options{})
	l := &Launched{
		host: h, journal: newJournal(), descriptor: e.Descriptor, stop: orDefault(cfg.Stop, DefaultStop),
		held: hold(filepath.Dir(path), e, false),
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
		entry: e, config: DriverConfig{Config: cfg.Config}, env: environment(cfg.EnvFrom),
	}
	if l.link, err = sp.link(l.host, l.held, log, newSayings(log, l.journal, 1, sp.secret()), within); err != nil {
		return err
	}
	if l.calls, err = l.link.connect(ctx, func() error { return nil }); err != nil {
		return l.link.explain(err)
	}
	if _, err := l.calls.Describe(ctx); err != nil {
		return l.link.explain(fmt.Errorf("describe: %w", err))
	}
	l.link.settled()
	l.took = time.Since(began)
	return nil
}

// Calls calls the driver.
func (l *Launched) Calls() driverrpc.Calls { return l.calls }

// Descriptor is what the binary said of itself with --describe.
func (l *Launched) Descriptor() driver.Descriptor { return l.descriptor }

// PID is the process number; 0: the driver has no lasting process.
func (l *Launched) PID() int { return l.link.pid() }

// Took is the time from the start of the process to its first answer.
func (l *Launched) Took() time.Duration { return l.took }

// Said returns what the driver printed, cleaned; at most the last 200 lines.
func (l *Launched) Said() []Line { return l.journal.last(keptLines) }

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

// CutLifeline does to the driver what the death of its host does.
func (l *Launched) CutLifeline() {
	if p, ok := l.link.(*grpcLink); ok {
		p.process.closeLifeline()
	}
}

// Exited is closed when the process has ended; nil for a driver that has no
// lasting process.
func (l *Launched) Exited() <-chan struct{} { return l.link.exited() }

// Close stops the driver. It may be called twice.
func (l *Launched) Close() error {
	l.closeOnce.Do(func() {
		if l.link != nil {
			l.link.stop(l.stop)
		}
		l.closed = errors.Join(l.held.close(), l.host.Close())
	})
	return l.closed
}
