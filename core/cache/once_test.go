package cache_test

import (
	"errors"
	"testing"

	"github.com/kairos-mcp/kairos/core/cache"
)

func TestOnceKeepsAResultAndNoFailure(t *testing.T) {
	full := errors.New("the disk is full")
	calls := 0
	once := cache.Once(func() (int, error) {
		calls++
		if calls < 3 {
			return 0, full
		}
		return calls, nil
	})
	for i, want := range []struct {
		value int
		err   error
	}{{0, full}, {0, full}, {3, nil}, {3, nil}} {
		if got, err := once(); got != want.value || !errors.Is(err, want.err) {
			t.Errorf("call %d = %d, %v, want %d, %v", i+1, got, err, want.value, want.err)
		}
	}
}
