// Package lazy holds something that its first use opens, once for all callers. It does
// not know what that is, or how it is closed.
package lazy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrClosed is the cause of every error after Close.
var ErrClosed = errors.New("the store is closed")

// Value is safe for concurrent use.
type Value[T any] struct {
	open func(context.Context) (*T, error) // fixed at creation
	then func(context.Context)             // likewise

	turn   chan struct{}     // holds one token: its owner may open or close
	opened atomic.Pointer[T] // nil until first use
	closed atomic.Bool

	background context.Context // of open and then; ends with Close
	stop       context.CancelFunc
	work       sync.WaitGroup
}

// New returns a value that open opens. Once it is open, then runs in the background. The
// contexts of both end with Close.
func New[T any](open func(context.Context) (*T, error), then func(context.Context)) *Value[T] {
	v := &Value[T]{open: open, then: then, turn: make(chan struct{}, 1)}
	v.background, v.stop = context.WithCancel(context.Background())
	v.turn <- struct{}{}
	return v
}

// Use returns the value, and opens it at the first use. A failed opening is retried by
// the next call. A caller that gives up does not end the opening, which can take longer
// than any call.
func (v *Value[T]) Use(ctx context.Context) (*T, error) {
	if value := v.opened.Load(); value != nil {
		return value, nil
	}
	select {
	case <-v.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if value, err := v.opened.Load(), ctx.Err(); value != nil || err != nil || v.closed.Load() {
		v.turn <- struct{}{}
		if err == nil && value == nil {
			err = ErrClosed
		}
		return value, err
	}
	result := make(chan error, 1)
	v.work.Go(func() {
		defer func() { v.turn <- struct{}{} }()
		value, err := v.open(v.background)
		if err == nil {
			v.opened.Store(value)
			v.work.Go(func() { v.then(v.background) })
		}
		result <- err
	})
	select {
	case err := <-result:
		if err != nil && v.closed.Load() {
			err = ErrClosed
		}
		return v.opened.Load(), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Opened returns the value if it is open, else nil.
func (v *Value[T]) Opened() *T { return v.opened.Load() }

// Closed reports whether Close was called.
func (v *Value[T]) Closed() bool { return v.closed.Load() }

// Close ends what runs in the background, waits for it, and returns the value for the
// caller to close, or nil if it is not open. It may be called twice.
func (v *Value[T]) Close() *T {
	v.closed.Store(true)
	v.stop()
	<-v.turn
	defer func() { v.turn <- struct{}{} }()
	v.work.Wait()
	return v.opened.Swap(nil)
}
