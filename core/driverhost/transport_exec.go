package driverhost

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// execTransport is a driver that runs one process for each call.
type execTransport struct {
	pinned     *pinnedBinary
	options    execOptions // all but the binary
	descriptor driver.Descriptor

	mu    sync.Mutex // guards the field below
	calls *execCalls // nil: not connected
}

// connect implements transport: it verifies the binary that every call runs.
func (l *execTransport) connect(_ context.Context, verified func() error) (driverrpc.Calls, error) {
	b, err := l.pinned.verified()
	if err != nil {
		return nil, err
	}
	if err := b.close(); err != nil {
		return nil, err
	}
	if err := verified(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.options
	o.verified = l.pinned.verified
	l.calls = newExecCalls(o)
	return &execDriver{ExecClient: driverrpc.NewExecClient(l.calls.run), calls: l.calls, descriptor: l.descriptor}, nil
}

func (l *execTransport) settled() {}

func (l *execTransport) lasting() bool { return false }

func (l *execTransport) exited() <-chan struct{} { return nil }

func (l *execTransport) pid() int { return 0 }

// explain has nothing to add: every error quotes the call's own stderr.
func (l *execTransport) explain(err error) error { return err }

func (l *execTransport) protection() []string { return l.options.guard.protection() }

// stop implements transport. Calls that are still under way end at once.
func (l *execTransport) stop(time.Duration) {
	l.mu.Lock()
	calls := l.calls
	l.mu.Unlock()
	if calls == nil {
		l.options.guard.close()
		return
	}
	calls.close()
}

// execDriver calls a driver on the exec transport: --describe for its descriptor, and a
// check of its configuration if it takes any.
type execDriver struct {
	*driverrpc.ExecClient
	calls      *execCalls
	descriptor driver.Descriptor // as locked
}

// Describe implements driverrpc.Calls.
func (d *execDriver) Describe(ctx context.Context) (driver.Descriptor, error) {
	printed, err := d.calls.once(ctx, []string{driverrpc.DescribeFlag}, nil)
	if err != nil {
		return driver.Descriptor{}, err
	}
	return decodeDescriptor(printed)
}

// Configure implements driverrpc.Calls. There is no lasting process to
// configure: every call gets the configuration.
func (d *execDriver) Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	if !dryRun || len(d.descriptor.ConfigSchema) == 0 {
		return nil, nil
	}
	return d.ExecClient.Configure(ctx, config, dryRun)
}
