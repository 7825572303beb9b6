package driverhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// grpcTransport is a process that serves gRPC, and the one connection to it.
type grpcTransport struct {
	log      *slog.Logger
	pinned   *pinnedBinary
	process  *process
	client   *plugin.Client
	rpc      *driverrpc.Client // nil: not connected
	within   time.Duration     // what a start may take
	stopOnce sync.Once
}

func newGRPCTransport(
	log *slog.Logger, h *Host, g *guard, pinned *pinnedBinary, env []string, says *outputLog, start time.Duration,
) (*grpcTransport, error) {
	base, err := h.sockets.make()
	if err != nil {
		return nil, err
	}
	l := &grpcTransport{log: log, pinned: pinned, within: start}
	l.process = newProcess(log, g.name, g, says)
	l.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  driverrpc.Handshake(),
		Plugins:          driverrpc.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, socketDir string) (runner.Runner, error) {
			l.process.env = slices.Concat(env, spec.Env)
			l.process.socketDir = socketDir
			return l.process, nil
		},
		StartTimeout:     start,
		Logger:           hclog.NewNullLogger(), // the host itself logs starts, stops and failures
		SyncStdout:       says.writer("stdout"),
		SyncStderr:       says.writer("stderr"),
		AutoMTLS:         true,
		SkipHostEnv:      true,
		GRPCDialOptions:  driverrpc.DialOptions(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: base},
	})
	return l, nil
}

// connect implements transport.
func (l *grpcTransport) connect(ctx context.Context, verified func() error) (driverrpc.Calls, error) {
	l.process.verify = func() (*binary, error) {
		b, err := l.pinned.verified()
		if err != nil {
			return nil, err
		}
		if err := verified(); err != nil {
			return nil, errors.Join(err, b.close())
		}
		return b, nil
	}
	abort := context.AfterFunc(ctx, l.process.kill)
	err := l.dial()
	if !abort() { // the error of dial is due to the end of the process
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("it was not ready within %v", l.within)
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return l.rpc, nil
}

// settled implements transport: the only connection of this generation is open, so the socket
// is not needed any more.
func (l *grpcTransport) settled() { removeSocket(l.log, l.process.socketDir) }

// dial starts the process and connects to it.
func (l *grpcTransport) dial() error {
	if _, err := l.client.Start(); err != nil {
		return l.notStarted(err)
	}
	protocol, err := l.client.Client()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	raw, err := protocol.Dispense(driverrpc.PluginName)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	rpc, ok := raw.(*driverrpc.Client)
	if !ok {
		return fmt.Errorf("connect: the plugin is a %T", raw)
	}
	l.rpc = rpc
	return nil
}

// notStarted words a failed start. The errors of go-plugin are about its own parts, and
// blame the author of the plugin for the output of a program that is not one.
func (l *grpcTransport) notStarted(err error) error {
	started := l.process.pid() != 0
	switch why := l.process.handshake.fault(); {
	case !started:
		return err // of this host: the binary, the sandbox, the kernel
	case why != "":
		return &toldError{why, err}
	}
	return &toldError{"it did not complete the handshake of drivers", err}
}

func (l *grpcTransport) lasting() bool { return true }

func (l *grpcTransport) exited() <-chan struct{} { return l.process.exited }

func (l *grpcTransport) pid() int { return l.process.pid() }

// explain adds how the process ended and its last output.
func (l *grpcTransport) explain(err error) error {
	switch how := l.process.ownEnd(); {
	case errors.Is(err, errEnded):
		err = fmt.Errorf("%w: %w", err, cmp.Or(how, errStatusZero))
	case how != nil:
		err = fmt.Errorf("%w; the process ended: %w", err, how)
	}
	if last := l.process.says.last(); last != "" {
		err = &saidError{err, last}
	}
	return err
}

func (l *grpcTransport) protection() []string { return l.process.guard.protection() }

// stop implements transport.
func (l *grpcTransport) stop(grace time.Duration) {
	l.stopOnce.Do(func() {
		l.process.stop(grace)
		l.client.Kill() // the process is gone: this only waits for go-plugin's goroutines
		removeSocket(l.log, l.process.socketDir)
	})
}
