//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// holdLock takes the write lock as another process would, until release.
func holdLock(t *testing.T, path string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close(lock) = %v, want nil", err)
		}
	}
}

func TestCallersLeaveWhileAnotherProcessWrites(t *testing.T) {
	s, path := fresh(t)
	ids := newRuns(t, s, 8)
	release := holdLock(t, path)
	save := func(ctx context.Context, id string) error {
		r, err := s.Run(t.Context(), run.ID(id)) // reading needs no lock
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		r.Seq++
		return s.SaveRun(ctx, runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Seq: r.Seq}}})
	}
	var leave, stay sync.WaitGroup
	for i, id := range ids {
		if i%2 == 0 {
			stay.Go(func() {
				if err := save(t.Context(), id); err != nil {
					t.Errorf("SaveRun(stays) = %v, want nil", err)
				}
			})
			continue
		}
		leave.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if err := save(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("SaveRun(leaves) = %v, want context.DeadlineExceeded", err)
			}
		})
	}
	leave.Wait() // although the lock is still held
	release()
	stay.Wait()
	for i, id := range ids {
		if got, want := wantCounted(t, s, id), int64(1-i%2); got != want {
			t.Errorf("run %d has number %d, want %d", i, got, want)
		}
	}
}

// Closing ends an opening that waits for the lock.
func TestCloseEndsAnOpening(t *testing.T) {
	s, path := fresh(t)
	defer holdLock(t, path)()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Count(ctx, "space"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Count while another process holds the lock = %v, want that the deadline passed", err)
	}
	called := make(chan error, 1)
	go func() {
		_, err := s.Count(t.Context(), "space")
		called <- err
	}()
	must(t, s.Close())
	if err := <-called; err == nil {
		t.Error("Count = nil, want that the store is closed")
	}
}
