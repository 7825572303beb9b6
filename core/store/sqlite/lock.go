package sqlite

import (
	"context"
	"errors"
	"os"
	"time"
)

// writeLock serialises the writers of several processes. SQLite's own lock is
// correct but unfair: under load one process can starve for seconds. It is used by
// one goroutine at a time.
type writeLock struct {
	path string
	f    *os.File // nil until first use, and after a wait was given up
}

func newWriteLock(path string) *writeLock { return &writeLock{path: path} }

// acquire takes the lock; it fails if the context ends or after patience.
func (l *writeLock) acquire(ctx context.Context) error {
	if l.f == nil {
		f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		l.f = f
	}
	if taken, err := tryFlock(l.f); taken || err != nil {
		return err
	}
	return l.wait(ctx)
}

// wait blocks in the kernel, which wakes waiters in order; polling would lose
// against a process that takes the lock again at once. An abandoned wait keeps its
// file, so that a lock that is granted too late is released with it.
func (l *writeLock) wait(ctx context.Context) error {
	f, taken := l.f, make(chan error, 1)
	go func() { taken <- waitFlock(f) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var gaveUp error
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
		gaveUp = ctx.Err()
	case <-timer.C:
		gaveUp = errLocked
	}
	l.f = nil
	go func() {
		<-taken       //nolint:errcheck // whether it was taken does not matter any more
		_ = f.Close() // nothing was written under it
	}()
	return gaveUp
}

// release cannot fail: closing the file gives the lock back as well.
func (l *writeLock) release() {
	if err := unflock(l.f); err != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

func (l *writeLock) close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
