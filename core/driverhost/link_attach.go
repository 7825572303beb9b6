package driverhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// attachLink reaches a driver that its author started with --debug. The host neither
// verifies nor ends it.
type attachLink struct {
	to driverrpc.Attachment

	mu    sync.Mutex // guards close
	close func() error
}

// connect implements link.
func (l *attachLink) connect(_ context.Context, verified func() error) (driverrpc.Calls, error) {
	if err := verified(); err != nil {
		return nil, err
	}
	client, stop, err := driverrpc.Dial(l.to)
	if err != nil {
		return nil, fmt.Errorf("attach to process %d at %s: %w", l.to.PID, l.to.Address, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close = stop
	return client, nil
}

func (l *attachLink) settled() {}

func (l *attachLink) lasting() bool { return true }

func (l *attachLink) exited() <-chan struct{} { return nil }

func (l *attachLink) pid() int { return l.to.PID }

func (l *attachLink) explain(err error) error {
	return fmt.Errorf("%w (attached to process %d, which was started with --debug: does it still run?)", err, l.to.PID)
}

func (l *attachLink) protection() []string {
	return []string{"none: attached to a process that somebody else started"}
}

// stop implements link.
func (l *attachLink) stop(time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.close != nil {
		_ = l.close()
		l.close = nil
	}
}
