package terminal

import (
	"context"
	"sync"
)

// inFlight counts the server's questions that are being answered.
type inFlight struct {
	mu   sync.Mutex
	open int
	idle chan struct{} // closed when open falls to 0
}

// begin counts a question until the returned function is called.
func (f *inFlight) begin() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open++; f.open == 1 {
		f.idle = make(chan struct{})
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open--; f.open == 0 {
			close(f.idle)
		}
	}
}

// wait returns when no question is being answered.
func (f *inFlight) wait(ctx context.Context) error {
	f.mu.Lock()
	idle, open := f.idle, f.open
	f.mu.Unlock()
	if open == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
