//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	f, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close(lock) = %v, want nil", err)
		}
	}
}

func TestCallersLeaveWhileAnotherProcessWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	defer s.Close()
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
