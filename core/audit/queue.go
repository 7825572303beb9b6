package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// pending is a line that waits to be written.
type pending struct {
	line    []byte
	written chan<- error // has room for one
	gone    *atomic.Bool // nobody waits any more, so it must not be written: it was not done
}

var (
	errSlow   = errors.New("the last line was not written in time")
	errFull   = errors.New("too many lines wait to be written")
	errClosed = errors.New("it is closed")
)

// put has a line written. It waits for that only if it must know, and not longer than patience.
func (l *Log) put(line Line, must bool) error {
	b, err := json.Marshal(line)
	if err != nil {
		return l.lost(err)
	}
	written, gone := make(chan error, 1), new(atomic.Bool)
	if err := l.queue(pending{append(plain.JSON(b), '\n'), written, gone}, must); err != nil {
		return l.lost(err)
	}
	if !must {
		return nil
	}
	select {
	case err := <-written:
		return err
	case <-time.After(patience):
		gone.Store(true)
		l.mu.Lock()
		l.stuck = true
		l.mu.Unlock()
		return l.lost(errSlow)
	}
}

// queue has a line wait to be written, if there is room. One that must be written does not wait
// behind another that is late.
func (l *Log) queue(p pending, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case l.stuck && must:
		return errSlow
	}
	select {
	case l.lines <- p:
		return nil
	default:
		return errFull
	}
}

// write writes what waits, a line after the other, until the log is closed.
func (l *Log) write() {
	defer close(l.done)
	for p := range l.lines {
		if p.gone.Load() {
			continue
		}
		err := l.opt.Sink.Write(p.line)
		l.mu.Lock()
		l.stuck = false
		if err == nil {
			l.failed = nil
		}
		l.mu.Unlock()
		if err != nil {
			err = l.lost(err)
		}
		p.written <- err
	}
	if err := l.opt.Sink.Close(); err != nil {
		l.log.Warn("the audit log was not closed", "error", err)
	}
}

// lost counts a line that was not written and returns why. The log of the server says so, but
// not each time.
func (l *Log) lost(err error) error {
	err = fmt.Errorf("write the audit log %s: %w", l.opt.Sink, err)
	if l.opt.Lost != nil {
		l.opt.Lost()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	if now := time.Now(); now.Sub(l.warned) >= warnEvery {
		l.warned = now
		l.log.Error("what was done is not in the audit log", "error", err)
	}
	return err
}

// State says where the lines are written, and why the latest was not; empty: none are.
func (l *Log) State() (where string, problem error) {
	if l == nil {
		return "", nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opt.Sink.String(), l.failed
}

// Check writes a line that says only that the caller has looked, and returns why it cannot.
func (l *Log) Check(ctx context.Context, c access.Caller) error {
	line := l.lineOf(ctx, c, Act{Action: auditCheck})
	line.Phase = Done
	return l.put(line, true)
}

// Close writes what waits and closes the sink. Later lines are lost. It may be called twice, and
// does not wait for ever.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.lines)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(patience):
		_ = l.lost(errSlow) // it says so in the log, and what was done is done
	}
	return nil
}
