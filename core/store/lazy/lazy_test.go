package lazy_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/store/lazy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context) {}

func TestItIsOpenedOnceForAllCallers(t *testing.T) {
	opened := 0
	begun := make(chan struct{})
	v := lazy.New(func(context.Context) (*int, error) { opened++; return &opened, nil }, func(context.Context) { close(begun) })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := v.Use(t.Context()); got != &opened || err != nil {
				t.Errorf("Use = %v, %v, want the value", got, err)
			}
		})
	}
	all.Wait()
	<-begun
	if got := v.Close(); got != &opened || opened != 1 {
		t.Errorf("Close = %v after %d openings, want the value and 1", got, opened)
	}
	if got, err := v.Use(t.Context()); got != nil || !errors.Is(err, lazy.ErrClosed) {
		t.Errorf("Use after Close = %v, %v, want ErrClosed", got, err)
	}
	if got := v.Close(); got != nil {
		t.Errorf("the second Close = %v, want nil", got)
	}
}

func TestAFailedOpeningIsRetried(t *testing.T) {
	full, calls := errors.New("the disk is full"), 0
	v := lazy.New(func(context.Context) (*int, error) {
		if calls++; calls == 1 {
			return nil, full
		}
		return &calls, nil
	}, nothing)
	defer v.Close()
	if got, err := v.Use(t.Context()); got != nil || !errors.Is(err, full) {
		t.Errorf("Use = %v, %v, want the failure", got, err)
	}
	if got, err := v.Use(t.Context()); got == nil || err != nil {
		t.Errorf("the second Use = %v, %v, want the value", got, err)
	}
}

func TestACallerThatGivesUpDoesNotEndTheOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := lazy.New(func(ctx context.Context) (*int, error) {
			time.Sleep(time.Minute)
			return new(int), ctx.Err()
		}, nothing)
		defer v.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the one that opens, and one that waits for it
			if got, err := v.Use(ctx); got != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Use = %v, %v, want that the deadline passed", got, err)
			}
		}
		time.Sleep(time.Minute)
		if v.Opened() == nil {
			t.Error("it is not open")
		}
	})
}

func TestCloseEndsAnOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := lazy.New(func(ctx context.Context) (*int, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, nothing)
		used := make(chan error, 1)
		go func() {
			_, err := v.Use(t.Context())
			used <- err
		}()
		synctest.Wait()
		if got := v.Close(); got != nil {
			t.Errorf("Close = %v, want nil", got)
		}
		if err := <-used; !errors.Is(err, lazy.ErrClosed) {
			t.Errorf("Use = %v, want ErrClosed", err)
		}
	})
}
