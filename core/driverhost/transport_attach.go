package driverhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// attachTransport reaches a driver that its author started with --debug. The host neither
// verifies nor ends it.
type attachTransport struct {
	to driverrpc.Attachment

	mu    sync.Mutex // guards close
	close func() error
}

// connect implements transport.
func (l *attachTransport) connect(_ context.Context, verified func() error) (driverrpc.Calls, error) {
	if err := verified(); err != nil {
		return nil, err
	}
	client, stop, err := driverrpc.Dial(l.to)
	if err != nil {
		return nil, fmt.Errorf("attach to process %d at %s: %w", l.to.PID, l.to.Address, err)
	}
	l.mu.Lock()
	l.close = stop
	l.mu.Unlock()
	return client, nil
}

func (l *attachTransport) settled() {}

func (l *attachTransport) lasting() bool { return true }

func (l *attachTransport) exited() <-chan struct{} { return nil }

func (l *attachTransport) pid() int { return l.to.PID }

func (l *attachTransport) explain(err error) error {
	return fmt.Errorf("%w (attached to process %d, which was started with --debug: does it still run?)", err, l.to.PID)
}

func (l *attachTransport) protection() []string {
	return []string{"none: attached to a process that somebody else started"}
}

// stop implements transport.
func (l *attachTransport) stop(time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.close != nil {
		_ = l.close()
		l.close = nil
	}
}
